package bootstrap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"polystalk/router/cluster"
	"polystalk/router/cluster/snapshot"
	"polystalk/router/cluster/transport"
	"polystalk/shard/wal"
)

// Path is the path of the request for an Answer: GET, on a connection of kind Admin.
const Path = "/cluster/bootstrap"

// Limits of requests.
const (
	bodyMax   = 16 << 10 // bytes of an answer
	askWithin = 3 * time.Second
	pauseMin  = 300 * time.Millisecond // between two rounds of questions
	patience  = 20                     // rounds before a wait is a warning
	joinTries = 10                     // then the server asks all others again
)

// Options configures Run.
type Options struct {
	Disk wal.Disk       // the server's directory, which the caller has locked
	Self cluster.Member // the ID is the directory's: see snapshot.NodeID
	List []string       // HOST:PORT of all servers, with Self.Addr
	Dial snapshot.Dial  // opens connections of kind Admin
	// Publish is called with each new answer of this server to the others.
	Publish func(*Answer)
	Waits   func(why string) // is called with what this server waits for; "": nothing
	// Join is snapshot.Join through the other servers, with a pause between tries.
	Join func(ctx context.Context, addrs []string, pause func(context.Context) error) (*cluster.State, error)
	Log  *slog.Logger // limited: see transport.LimitLog
}

// ErrDiscarded is the error of a server that has given up its ID. The process must start again.
var ErrDiscarded = errors.New("this server begins to bootstrap again under another id")

// errAskAgain ends a Join that does not succeed: the cluster may be gone.
var errAskAgain = errors.New("no server of the cluster lets this one join")

// Run makes the server of a new directory a member of a cluster. It returns the server's state, which
// the caller closes. It tries until it succeeds or ctx ends.
func Run(ctx context.Context, o Options) (*cluster.State, error) {
	if err := snapshot.Clear(o.Disk); err != nil {
		return nil, err
	}
	bound, err := snapshot.Bound(o.Disk)
	if err != nil {
		return nil, err
	}
	list := slices.Sorted(slices.Values(o.List))
	self := Answer{Node: o.Self.ID, Name: o.Self.Name, Address: o.Self.Addr, List: digestOf(list), Bound: bound}
	var last decision
	for round := 0; ; round++ {
		o.Publish(new(self))
		answers, unanswered := o.askAll(ctx, &self, list)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		d := decide(&self, list, answers)
		o.Waits(d.why)
		switch {
		case d.do == bind:
			if err := snapshot.Bind(o.Disk, d.bound); err != nil {
				return nil, err
			}
			self.Bound = d.bound
			continue
		case d.do == found:
			return o.begin(cluster.RandomID(), d.members, "a cluster was made of all servers in the list")
		case d.do == adopt:
			return o.begin(d.cluster, d.members, "this server belongs to the cluster that was made of all servers in the list")
		case d.do == join:
			s, err := o.Join(ctx, o.others(list), joinPause())
			if !errors.Is(err, errAskAgain) {
				return s, err
			}
		case d.do == discard && last.do == discard: // twice, since another server may just adopt a cluster
			if err := snapshot.Discard(o.Disk); err != nil {
				return nil, err
			}
			return nil, fmt.Errorf("%w: %s", ErrDiscarded, d.why)
		}
		if last = d; d.do == wait {
			level := slog.LevelInfo
			if round >= patience {
				level = slog.LevelWarn
			}
			args := []any{"why", d.why}
			if unanswered != nil {
				args = append(args, "err", unanswered)
			}
			o.Log.Log(transport.WithSubject(ctx, d.why), level, "this server waits to bootstrap a cluster", args...)
		}
		if err := pause(ctx, pauseMin+rand.N(pauseMin)); err != nil {
			return nil, err
		}
	}
}

// begin makes the state of a founding member with an empty log.
func (o *Options) begin(id uint64, list []cluster.Member, msg string) (*cluster.State, error) {
	members, err := cluster.Founding(list)
	if err != nil {
		return nil, err
	}
	s, err := cluster.CreateState(o.Disk, cluster.Identity{Cluster: id, Node: o.Self.ID, Name: o.Self.Name}, cluster.Vote{}, members)
	if err == nil {
		o.Log.Info(msg, "cluster", fmt.Sprintf("%016x", id), "node", o.Self.Name, "servers", len(list))
	}
	return s, err
}

// others returns the list without this server.
func (o *Options) others(list []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(at string) bool { return at == o.Self.Addr })
}

// askAll asks all other servers at once. The error says why servers do not answer.
func (o *Options) askAll(ctx context.Context, self *Answer, list []string) (map[string]*Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	answers := map[string]*Answer{o.Self.Addr: self}
	var failed error
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, at := range o.others(list) {
		asking.Go(func() {
			a, err := o.ask(ctx, at)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = errors.Join(failed, err)
				return
			}
			answers[at] = a
		})
	}
	asking.Wait()
	return answers, failed
}

func (o *Options) ask(ctx context.Context, at string) (*Answer, error) {
	connect := func(ctx context.Context) (net.Conn, error) { return o.Dial(ctx, at) }
	status, b, err := transport.Request(ctx, connect, http.MethodGet, Path, nil, bodyMax)
	if err != nil {
		return nil, fmt.Errorf("asking the server at %s: %w", at, err)
	}
	a := new(Answer)
	if err := json.Unmarshal(b, a); err != nil || status != http.StatusOK {
		return nil, fmt.Errorf("the server at %s answers %d %s: it starts, or has another release", at, status, http.StatusText(status))
	}
	return a, nil
}

// joinPause returns the pause of Join, which ends Join after joinTries.
func joinPause() func(context.Context) error {
	tries := 0
	return func(ctx context.Context) error {
		if tries++; tries == joinTries {
			return errAskAgain
		}
		return pause(ctx, time.Second)
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
