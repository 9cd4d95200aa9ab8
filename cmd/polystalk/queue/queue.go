// Package queue is what can be asked of any server, whichever protocol it speaks. Answers
// are documents: JSON as polystalkd's API has it (router/http/openapi.json), in which members
// are missing that the server cannot tell.
package queue

import (
	"context"
	"io"
	"time"

	"polystalk/cmd/polystalk/fault"
)

// A Queue is a connection to one server. Its methods are called one after the other, and
// give up when ctx ends. Errors that are no *fault.Fault are of the system. Names of tubes
// are octets.
type Queue interface {
	Server(ctx context.Context) ([]byte, error)

	// Tubes shows a list of tubes to page, in one or more parts with the rows in "tubes".
	Tubes(ctx context.Context, q TubeQuery, page func([]byte) error) error
	Tube(ctx context.Context, name string) ([]byte, error)
	// Pause keeps reserve from a tube for so many seconds; 0: it goes on.
	Pause(ctx context.Context, name string, seconds uint32) error

	// Jobs shows a list of jobs to page, in one or more parts with the rows in "jobs".
	Jobs(ctx context.Context, q JobQuery, page func([]byte) error) error
	Job(ctx context.Context, id uint64) ([]byte, error)
	// Body writes a body as it is.
	Body(ctx context.Context, id uint64, w io.Writer) error
	Put(ctx context.Context, tube string, j NewJob) (id uint64, err error)

	Kick(ctx context.Context, id uint64) error
	Bury(ctx context.Context, id uint64, force bool) error
	Delete(ctx context.Context, id uint64, force bool) error

	Close()
}

// A TubeQuery says which tubes are listed.
type TubeQuery struct {
	Match string // a pattern with * and ?; empty: all
	Sort  string // a column, with - before it the largest first; empty: name
	Limit int    // 0: all
}

// A JobQuery says which jobs are listed.
type JobQuery struct {
	Tube         string
	AllTubes     bool // instead of Tube
	States       []string
	Order        string // next, oldest, newest or scan; empty: what the server does unasked
	Contains     string
	MinID, MaxID uint64 // 0: none
	Older        time.Duration
	Limit        int    // 0: all
	Body         string // none, preview or full
}

// Narrows reports whether jobs are to be picked by more than tube and state.
func (q *JobQuery) Narrows() bool {
	return q.Contains != "" || q.MinID != 0 || q.MaxID != 0 || q.Older != 0
}

// A NewJob is one to be put.
type NewJob struct {
	Pri, Delay, TTR uint32 // the latter two in seconds
	Body            []byte
	Large           *io.SectionReader // instead of Body, one that is not in memory; nil: Body
}

// OnlyPolystalk is the fault of who asks a server for what beanstalkd's protocol does not
// have.
func OnlyPolystalk(what string) error {
	return fault.New(fault.Usage, "beanstalkd's protocol cannot %s: that takes polystalkd with --http, which is given as --server http://HOST:PORT", what)
}
