package workload

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"polystalk/loadtest/drive"
)

// A Workload is one process's part of a load. Setup may be slow and is not
// measured; Run is called once per phase and returns with every command
// answered and the server in the state in which Setup left it, so that it can
// be called again; Teardown removes what Setup made.
//
// What one operation is, the protocol says: with beanstalkd a command answered, in
// every workload but connect, so that put, reserve and delete of one job are
// three operations. Gearman does not answer every request, so there one operation
// is one job submitted, taken or done, as the workload says, or one echo.
// Connecting is not an operation.
type Workload interface {
	Setup(ctx context.Context) error
	Run(ph *Phase) error
	Teardown(ctx context.Context) error
}

// An Actor is one connection's behaviour: Turn does the smallest piece of it
// after which nothing is left unanswered. It returns ErrDone if it found nothing
// left to do.
type Actor interface {
	Turn(l *drive.Lane) error
}

// Traits are what has to be known of a workload before it runs.
type Traits uint8

const (
	Once        Traits = 1 << iota // Run changes the server for good: no warm-up, no end but its jobs
	OnceCounted                    // the same, if there is a count
	Alone                          // one process only
	Pairs                          // needs a producer and a consumer
	Workers                        // has worker connections beside those of -conns
	Unpaced                        // has no open loop
	Constant                       // makes sense against a server that answers constants
)

// A Spec describes a workload by name. Help says what a turn does; the type that
// Build makes has the whole definition.
type Spec struct {
	Help     string
	Defaults Load // of knobs whose default is the workload's own
	Traits   Traits
	Check    func(Load) error // what it refuses besides; nil: nothing
	Build    func(*Env) Workload
}

// Is tells whether the workload has all of t.
func (s Spec) Is(t Traits) bool { return s.Traits&t == t }

// A Protocol is what a server speaks, and how it is driven by it.
type Protocol struct {
	Name  string // of the flag -protocol
	Addr  string // where a server listens unless told otherwise
	Args  string // of a command line that has no {port}
	Unit  string // what an operation is, for reports
	First string // workload unless told otherwise
	// Version asks the server; it is what tells that the server is ready.
	Version   func(ctx context.Context, addr string) (string, error)
	Workloads map[string]Spec
	Bench     []string // loads by which polystalkd is judged
	Goals     []string // assertions about them
}

// Spec is the workload of l.
func (p *Protocol) Spec(l Load) Spec { return p.Workloads[l.Workload] }

// Endless loads are over when their jobs are: there is neither a time limit nor
// a warm-up, which would change what is measured.
func (p *Protocol) Endless(l Load) bool {
	s := p.Spec(l)
	return s.Is(Once) || s.Is(OnceCounted) && l.Count > 0
}

// Protocols are those that are known, by name.
type Protocols map[string]*Protocol

// Named finds a protocol.
func (ps Protocols) Named(name string) (*Protocol, error) {
	p, ok := ps[name]
	if !ok {
		return nil, fmt.Errorf("there is no protocol %q; the protocols are %s", name, sortedNames(ps))
	}
	return p, nil
}

func sortedNames[V any](m map[string]V) string {
	return strings.Join(slices.Sorted(maps.Keys(m)), " ")
}
