package gearmand

import (
	"polystalk/router/session"
)

// A Front is the server's side of Gearman: how it is spoken, and what its connections
// share. It implements session.Front.
type Front struct {
	host *session.Host
	cfg  Config
	base int // from where the host counts this protocol's commands

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
	f := &Front{host: host, cfg: cfg, wantShutdown: wantShutdown}
	f.base = host.Base(len(f.Kinds()))
	return f
}

// Name implements session.Front.
func (f *Front) Name() string { return "Gearman" }

// Kinds implements session.Front: the packets that a server takes, then the lines, as
// "gearman-" and their name in lower case, as in "gearman-submit-job-bg" and
// "gearman-show-jobs".
func (f *Front) Kinds() []string { return kinds.names }

// Config is how Gearman is spoken.
func (f *Front) Config() Config { return f.cfg }

// Open implements session.Front.
func (f *Front) Open(l *session.Loop, nc session.Conn) *session.Session {
	c := &conn{front: f, input: (*conn).opening, exceptions: f.cfg.Exceptions}
	c.Init(l, nc, c)
	c.mail.Msg.Home, c.mail.Msg.Owner = l, &c.Session
	c.op.Mail = &c.mail
	c.entry = f.directory.add(nc)
	return &c.Session
}
