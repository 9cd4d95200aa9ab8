package beanstalkd

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"polystalk/codec/beanstalk"
	"polystalk/router/session"
	"polystalk/shard/core"
)

// Config says how the protocol is spoken.
type Config struct {
	// MaxJobSize is the largest job body in bytes.
	MaxJobSize uint32
	// BinlogMaxSize is what stats reports as binlog-max-size, in bytes.
	BinlogMaxSize int64
	// Version is what stats reports; it starts with digits.
	Version string
}

// A Front is the protocol's side of a server. It implements session.Front.
type Front struct {
	cfg  Config // but for its MaxJobSize, which may change
	host *session.Host

	maxJobSize atomic.Uint32 // bytes; see ahead.maxSize

	base      int // of its kinds of commands, as the loops count them
	errorBase int // of failures

	started core.Time
	id      string
	uname   unix.Utsname

	// ahead is, by the index of a loop, what the loop has parsed of the input of the
	// connection in its turn. A loop touches only its own.
	ahead [session.LoopsMax]*ahead
}

// DefaultTube is what every client uses and watches at first. It is always there.
const DefaultTube = "default"

// New makes the host's front for the protocol, before there is a loop.
func New(host *session.Host, cfg Config) (*Front, error) {
	f := &Front{cfg: cfg, host: host, started: host.Clock.Now()}
	f.maxJobSize.Store(cfg.MaxJobSize)
	f.base = host.Base(int(beanstalk.NumKinds))
	f.errorBase = host.ErrorBase(int(failures))
	var id [8]byte
	rand.Read(id[:]) // never fails
	f.id = hex.EncodeToString(id[:])
	if err := unix.Uname(&f.uname); err != nil {
		return nil, os.NewSyscallError("uname", err)
	}
	return f, nil
}

// MaxJobSize is the largest job body in bytes; at any time.
func (f *Front) MaxJobSize() uint32 { return f.maxJobSize.Load() }

// SetMaxJobSize changes Config.MaxJobSize, at any time. A body that is being received, and
// every job that is there, stays.
func (f *Front) SetMaxJobSize(bytes uint32) { f.maxJobSize.Store(bytes) }

// Name implements session.Front.
func (f *Front) Name() string { return "beanstalkd" }

// Kinds implements session.Front: "cmd-" and the command's word. The first is no command.
func (f *Front) Kinds() []string {
	names := make([]string, beanstalk.NumKinds)
	for k := beanstalk.Unknown + 1; k < beanstalk.NumKinds; k++ {
		names[k] = "cmd-" + k.String()
	}
	return names
}

// Open implements session.Front.
func (f *Front) Open(l *session.Loop, c session.Conn) *session.Session {
	if f.ahead[l.Index] == nil {
		f.ahead[l.Index] = new(ahead)
	}
	s := &conn{front: f, ahead: f.ahead[l.Index]}
	s.Init(l, c, s)
	return &s.Session
}

// A failure is a reply that says that a command was not done. NOT_FOUND is one of them: it
// is what a worker hears that was too late. TIMED_OUT, DEADLINE_SOON and NOT_IGNORED are
// none: all went as it was asked for.
type failure uint8

const (
	badFormat failure = iota
	unknownCommand
	expectedCRLF
	jobTooBig
	draining
	outOfMemory
	internalError
	notFound
	failures
)

var failureReplies = [failures]string{
	badFormat: beanstalk.MsgBadFormat, unknownCommand: beanstalk.MsgUnknownCommand, expectedCRLF: beanstalk.MsgExpectedCRLF,
	jobTooBig: beanstalk.MsgJobTooBig, draining: beanstalk.MsgDraining, outOfMemory: beanstalk.MsgOutOfMemory,
	internalError: beanstalk.MsgInternalError, notFound: beanstalk.MsgNotFound,
}

// Errors implements session.Front: the replies in lower case, as in "bad_format".
func (f *Front) Errors() []string {
	names := make([]string, failures)
	for i, reply := range failureReplies {
		names[i] = strings.ToLower(strings.TrimSuffix(reply, crlf))
	}
	return names
}

// fail answers with a failure, and counts it.
func (c *conn) fail(why failure) {
	c.Loop().CountError(c.front.errorBase + int(why))
	c.Say(failureReplies[why])
}
