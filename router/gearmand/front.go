package gearmand

import (
	"fmt"
	"sync/atomic"

	"polystalk/router/session"
)

// A Front is the server's side of Gearman: how it is spoken, and what its connections
// share. It implements session.Front.
type Front struct {
	host      *session.Host
	cfg       atomic.Pointer[Config] // never changed in place
	base      int                    // from where the host counts this protocol's commands
	errorBase int                    // and its failures

	directory directory

	// wantShutdown is called by a loop when a client that may do so asks for the end of
	// the server: at once, or when no job is left. It must not wait.
	wantShutdown func(graceful bool)
}

// New makes the host's front for Gearman, before there is a loop. cfg is to be complete,
// by Config.Fill, and to be valid. wantShutdown is called when a client asks for the end of
// the server, whose answer is on its way then: see Config.Shutdown. It is called by loops,
// perhaps by several at a time, and must not wait.
func New(host *session.Host, cfg Config, wantShutdown func(graceful bool)) *Front {
	f := &Front{host: host, wantShutdown: wantShutdown}
	f.cfg.Store(&cfg)
	f.base = host.Base(len(f.Kinds()))
	f.errorBase = host.ErrorBase(len(failures))
	return f
}

// Name implements session.Front.
func (f *Front) Name() string { return "Gearman" }

// Kinds implements session.Front: the packets that a server takes, then the lines, as
// "gearman-" and their name in lower case, as in "gearman-submit-job-bg" and
// "gearman-show-jobs".
func (f *Front) Kinds() []string { return kinds.names }

// Config is how Gearman is spoken.
func (f *Front) Config() Config { return *f.cfg.Load() }

// Set changes how Gearman is spoken, at any time. cfg is to be complete and valid, with the
// Prefix that there is: clients know handles by it. Of the rest each message goes by what
// holds when it comes, and Exceptions is for new connections.
func (f *Front) Set(cfg Config) {
	if was := f.cfg.Load().Prefix; cfg.Prefix != was {
		panic(fmt.Sprintf("gearmand: handles begin with %q, and are to begin with %q", was, cfg.Prefix))
	}
	f.cfg.Store(&cfg)
}

// ForCluster has job handles begin with the number of a cluster, unless Config.Prefix was given:
// jobs outlive the server that gave the handles, whose host these must not name. It is called
// before there is a connection.
func (f *Front) ForCluster(number uint64) {
	cfg := *f.cfg.Load()
	if cfg.namesHost {
		cfg.Prefix = fmt.Sprintf("H:%016x", number)
		f.cfg.Store(&cfg)
	}
}

// Open implements session.Front.
func (f *Front) Open(l *session.Loop, nc session.Conn) *session.Session {
	c := &conn{front: f, input: (*conn).opening, exceptions: f.cfg.Load().Exceptions}
	c.Init(l, nc, c)
	c.mail.Msg.Home, c.mail.Msg.Owner = l, &c.Session
	c.op.Mail = &c.mail
	c.entry = f.directory.add(nc)
	return &c.Session
}
