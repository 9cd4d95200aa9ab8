package gearmand

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"polystalk/codec/gearman"
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
// the server, after it was answered: see Config.Shutdown. It is called by loops,
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
// jobs outlive the server that gave the handles, so these must not name its host. It is called
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

// failures are what is counted of answers that say that a message was not understood or
// not done: ERROR packets and lines that begin with ERR, by their codes, and what makes the
// server close a connection without a word.
var failures = []string{
	"argument_too_large", "data_too_large", "invalid_argument", "invalid_command", "invalid_magic", "invalid_packet",
	"job_not_found", "queue_error", "unknown_option",
	functionBusy, functionNotFound, "invalid_arguments", "unknown_command", "unknown_error", unknownJob, "unknown_show_arguments",
	"bad_magic", "line_too_long", "no_such_packet_type", "too_many_words",
}

// The codes of lines that have none.
const (
	unknownJob       = "unknown_job"
	functionNotFound = "function_not_found"
	functionBusy     = "function_busy"
)

// Errors implements session.Front.
func (f *Front) Errors() []string { return failures }

// failed counts an answer. The list is short, and to be answered so is rare.
func (c *conn) failed(code string) {
	c.Loop().CountError(c.front.errorBase + slices.Index(failures, code))
}

// fail answers with an ERROR, one of package gearman's.
func (c *conn) fail(body string) {
	c.failed(gearman.ErrorCode(body))
	c.SetOut(gearman.AppendError(c.Out(), body))
}

// refuseLine answers a line that cannot be done.
func (c *conn) refuseLine(msg, code string) {
	c.failed(code)
	c.Say(msg)
}

// sayFault answers a message in which something is wrong.
func (c *conn) sayFault(fault *gearman.Fault) {
	c.failed(fault.Code())
	c.SetOut(fault.AppendReply(c.Out(), &c.m))
}

// kinds are the commands that are counted: packets by type and lines by verb.
var kinds = newKindList()

// A kindList is the names of commands as counters, and where each stands in that list.
type kindList struct {
	names   []string
	packets [gearman.NumTypes]int // of types that a server takes; Parse lets in no others
	lines   [gearman.NumVerbs]int // of all but Unknown
}

func newKindList() *kindList {
	k := new(kindList)
	add := func(name string) (at int) {
		k.names = append(k.names, "gearman-"+strings.NewReplacer("_", "-", " ", "-").Replace(strings.ToLower(name)))
		return len(k.names) - 1
	}
	for t := range gearman.NumTypes {
		if t.ToServer() {
			k.packets[t] = add(t.String())
		}
	}
	for v := gearman.Unknown + 1; v < gearman.NumVerbs; v++ {
		k.lines[v] = add(v.String())
	}
	return k
}

// of is the position of a message's kind.
func (k *kindList) of(m *gearman.Message) int {
	if m.Type == gearman.Text {
		return k.lines[m.Verb]
	}
	return k.packets[m.Type]
}
