package gearmand

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"polystalk/codec/gearman"
	"polystalk/router/session"
)

// A Front makes and serves the Gearman sessions of a server. It implements session.Front.
type Front struct {
	host            *session.Host
	cfg             atomic.Pointer[Config] // never changed in place
	base, errorBase int                    // see session.Host.Base

	directory directory

	wantShutdown func(graceful bool) // see New
}

// New makes the host's front for Gearman, before there is a loop. cfg must be valid and
// complete, by Config.Fill. wantShutdown is called after the reply to a permitted client's
// shutdown command; graceful means: when no job is left. Several loops may call it at the same
// time, and it must not block.
func New(host *session.Host, cfg Config, wantShutdown func(graceful bool)) *Front {
	f := &Front{host: host, wantShutdown: wantShutdown}
	f.cfg.Store(&cfg)
	f.base, f.errorBase = host.Base(len(f.Kinds()), len(failures))
	return f
}

// Name implements session.Front.
func (f *Front) Name() string { return "Gearman" }

// Kinds implements session.Front: "gearman-" and the lower-case name of each packet that a server
// takes, as in "gearman-submit-job-bg", and of each line, as in "gearman-show-jobs".
func (f *Front) Kinds() []string { return kinds.names }

// Config returns the settings.
func (f *Front) Config() Config { return *f.cfg.Load() }

// Set changes the settings, at any time. cfg must be valid and complete, and its Prefix must be
// the current one, because clients know handles with it. Other settings apply to later messages,
// and Exceptions to new connections.
func (f *Front) Set(cfg Config) {
	if was := f.cfg.Load().Prefix; cfg.Prefix != was {
		panic(fmt.Sprintf("gearmand: handles begin with %q, and are to begin with %q", was, cfg.Prefix))
	}
	f.cfg.Store(&cfg)
}

// ForCluster makes job handles begin with the number of a cluster, unless Config.Prefix was given:
// jobs outlive the server that made their handles, so handles must not name its host. It must be
// called before there is a connection.
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
	if f.host.Access != nil {
		c.op.Visible = c.isVisible
	}
	c.entry = f.directory.add(nc)
	return &c.Session
}

// failures are the counted errors: the codes of ERROR packets and of lines that begin with ERR,
// and faults for which the server closes the connection without a reply.
var failures = []string{
	"argument_too_large", "data_too_large", "invalid_argument", "invalid_command", "invalid_magic", "invalid_packet",
	"job_not_found", "not_permitted", "queue_error", "unauthorized", "unknown_option",
	functionBusy, functionNotFound, "invalid_arguments", "unknown_command", "unknown_error", unknownJob, "unknown_show_arguments",
	"bad_magic", "line_too_long", "no_such_packet_type", "too_many_words",
}

// Codes for error lines without a code.
const (
	unknownJob       = "unknown_job"
	functionNotFound = "function_not_found"
	functionBusy     = "function_busy"
)

// Errors implements session.Front.
func (f *Front) Errors() []string { return failures }

// failed counts an error. The list is short and errors are rare, so it is searched.
func (c *conn) failed(code string) {
	c.Loop().CountError(c.front.errorBase + slices.Index(failures, code))
}

// fail replies with one of the ERROR bodies of package gearman, and counts it.
func (c *conn) fail(body string) {
	c.failed(gearman.ErrorCode(body))
	c.SetOut(gearman.AppendError(c.Out(), body))
}

// refuseLine replies to a line that failed, and counts the error.
func (c *conn) refuseLine(msg, code string) {
	c.failed(code)
	c.Say(msg)
}

// sayFault replies to an invalid message, and counts the error.
func (c *conn) sayFault(fault *gearman.Fault) {
	c.failed(fault.Code())
	c.SetOut(fault.AppendReply(c.Out(), &c.m))
}

// kinds lists the counted commands: packets by type and lines by verb.
var kinds = newKindList()

// A kindList has the names of the command counters, and the index of each command in names.
type kindList struct {
	names   []string
	packets [gearman.NumTypes]int // for types that a server takes; Parse accepts no others
	lines   [gearman.NumVerbs]int // for all verbs except Unknown
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

// of returns the index of a message's kind.
func (k *kindList) of(m *gearman.Message) int {
	if m.Type == gearman.Text {
		return k.lines[m.Verb]
	}
	return k.packets[m.Type]
}

// A Config has the settings of Gearman. The zero value of a field means its default.
type Config struct {
	// Prefix begins every job handle; default "H:" and the host's name, or the cluster's
	// number: see Front.ForCluster.
	Prefix    string
	namesHost bool // Prefix is the default with the host's name
	// MaxBody is the largest body of a packet in bytes; default 64 MiB.
	MaxBody uint32
	// MaxUnread bounds the bytes of reports that a client has not read. Above it the
	// connection is closed, and its jobs continue. Default twice MaxBody, so that two large
	// results in a row do not close a connection that reads.
	MaxUnread int
	// Retries is how often a job may lose its worker before it fails; zero: no limit.
	// Wakeup is how many sleeping workers a new job wakes; zero: all. BuryFailed buries
	// failed background jobs instead of deleting them. The shards use all three.
	Retries    uint32
	Wakeup     int
	BuryFailed bool
	// Exceptions switches the option exceptions on for every connection.
	Exceptions bool
	// Shutdown says which clients may use the command shutdown.
	Shutdown ShutdownFrom
	// Version is the reply to the command version; default 2.0.0.
	Version string
	// Verbose is the reply to the command verbose: the log level in gearmand's words;
	// default INFO.
	Verbose string
}

// MaxBodyLimit is the largest MaxBody, in bytes. It is also the largest job size of beanstalkd.
const MaxBodyLimit = 1 << 30

// Validate returns an error if a setting is invalid.
func (c *Config) Validate() error {
	switch {
	case !gearman.ValidPrefix(c.Prefix):
		return fmt.Errorf("the prefix of job handles is %q: use at most %d bytes, without spaces", c.Prefix, gearman.MaxPrefix)
	case c.MaxBody > MaxBodyLimit:
		return fmt.Errorf("the largest body of a Gearman packet is %d: use at most %d", c.MaxBody, MaxBodyLimit)
	case c.MaxUnread < 0:
		return errors.New("the limit of unread bytes of a Gearman client is negative")
	}
	return nil
}

// Fill sets fields that are zero to their defaults; host is the machine's name.
func (c *Config) Fill(host string) {
	if c.Prefix == "" {
		c.namesHost = true
		c.Prefix = "H:" + host[:min(len(host), gearman.MaxPrefix-len("H:"))]
	}
	if c.MaxBody == 0 {
		c.MaxBody = gearman.DefaultMaxBody
	}
	if c.MaxUnread == 0 {
		c.MaxUnread = 2 * int(c.MaxBody)
	}
	if c.Verbose == "" {
		c.Verbose = "INFO"
	}
	if c.Version == "" {
		c.Version = "2.0.0"
	}
}

// A ShutdownFrom says which clients may shut the server down.
type ShutdownFrom int

// Clients of this machine, any client, no client.
const (
	ShutdownLocal ShutdownFrom = iota
	ShutdownAny
	ShutdownNone
)
