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

// Config has the settings of the protocol.
type Config struct {
	// MaxJobSize is the largest job body in bytes.
	MaxJobSize uint32
	// BinlogMaxSize is what stats reports as binlog-max-size, in bytes.
	BinlogMaxSize int64
	// Version is what stats reports; it starts with digits.
	Version string
}

// A Front makes and serves the beanstalkd sessions of a server. It implements session.Front.
type Front struct {
	cfg  Config // except MaxJobSize, which may change
	host *session.Host

	maxJobSize atomic.Uint32 // bytes; see ahead.maxSize

	base, errorBase int // see session.Host.Base

	started core.Time
	id      string
	uname   unix.Utsname

	// ahead has, by the index of a loop, the commands that the loop has parsed from its
	// current input. A loop uses only its own element.
	ahead [session.LoopsMax]*ahead
}

// DefaultTube is the tube that every client uses and watches at first. It always exists.
const DefaultTube = "default"

// New makes the host's front for the protocol, before there is a loop.
func New(host *session.Host, cfg Config) (*Front, error) {
	f := &Front{cfg: cfg, host: host, started: host.Clock.Now()}
	f.maxJobSize.Store(cfg.MaxJobSize)
	f.base, f.errorBase = host.Base(int(beanstalk.NumKinds), int(failures))
	var id [8]byte
	rand.Read(id[:]) // never fails
	f.id = hex.EncodeToString(id[:])
	if err := unix.Uname(&f.uname); err != nil {
		return nil, os.NewSyscallError("uname", err)
	}
	return f, nil
}

// MaxJobSize returns the largest job body in bytes. Any goroutine may call it at any time.
func (f *Front) MaxJobSize() uint32 { return f.maxJobSize.Load() }

// SetMaxJobSize changes Config.MaxJobSize, at any time. Bodies being received and existing jobs
// stay.
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

// A failure is an error reply. NOT_FOUND is one, because a worker gets it when its job has timed
// out. TIMED_OUT, DEADLINE_SOON and NOT_IGNORED are regular replies.
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
	unauthorized
	failures
)

var failureReplies = [failures]string{
	badFormat: beanstalk.MsgBadFormat, unknownCommand: beanstalk.MsgUnknownCommand, expectedCRLF: beanstalk.MsgExpectedCRLF,
	jobTooBig: beanstalk.MsgJobTooBig, draining: beanstalk.MsgDraining, outOfMemory: beanstalk.MsgOutOfMemory,
	internalError: beanstalk.MsgInternalError, notFound: beanstalk.MsgNotFound,
	unauthorized: beanstalk.MsgUnauthorized,
}

// Errors implements session.Front: the replies in lower case, as in "bad_format".
func (f *Front) Errors() []string {
	names := make([]string, failures)
	for i, reply := range failureReplies {
		names[i] = strings.ToLower(strings.TrimSuffix(reply, crlf))
	}
	return names
}

// fail replies with a failure, and counts it.
func (c *conn) fail(why failure) {
	c.Loop().CountError(c.front.errorBase + int(why))
	c.Say(failureReplies[why])
}
