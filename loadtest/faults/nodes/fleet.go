package nodes

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"polystalk/codec/wiretest/relay"
	"polystalk/loadtest/proc"
)

// Options are what a Fleet is made with.
type Options struct {
	Dir      string   // of everything; it must be there
	Programs []string // the nodes' in turn
	Nodes    int      // 1: a server by itself, with -b
	Gearman  bool
	Args     []string      // of all nodes
	Timeout  time.Duration // of elections
}

// A Fleet is all nodes of a run.
type Fleet struct {
	o       Options
	Nodes   []*Node
	Wires   *Wires // nil: there is one node
	spawner *proc.Spawner

	mu        sync.Mutex
	accidents []Accident
}

// New makes the nodes, with addresses of their own, and starts none.
func New(o Options) (*Fleet, error) {
	f := &Fleet{o: o, spawner: proc.NewSpawner()}
	if o.Nodes > 1 {
		f.Wires = &Wires{relays: make(map[wire]*relay.Relay)}
	}
	for i := range o.Nodes {
		if _, err := f.Add(o.Programs[i%len(o.Programs)]); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	return f, nil
}

// Add makes one more node.
func (f *Fleet) Add(program string) (*Node, error) {
	i := len(f.Nodes)
	n := &Node{Name: fmt.Sprintf("n%d", i+1), Number: i, Program: program, fleet: f}
	n.Dir = filepath.Join(f.o.Dir, n.Name)
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	n.Beanstalkd, n.Gearman, n.Cluster = local(ports[0]), local(ports[1]), local(ports[2])
	if n.log, err = os.Create(filepath.Join(f.o.Dir, n.Name+".log")); err != nil {
		return nil, err
	}
	if f.Wires != nil {
		if err := f.Wires.join(n, f.Nodes); err != nil {
			return nil, err
		}
	}
	f.Nodes = append(f.Nodes, n)
	return n, nil
}

// arguments are those of a node's next start.
func (f *Fleet) arguments(n *Node) []string {
	_, port, _ := net.SplitHostPort(n.Beanstalkd)
	args := []string{"-l", "127.0.0.1", "-p", port, "-b", n.Dir}
	if f.o.Gearman {
		args = append(args, "--gearman-listen", n.Gearman)
	}
	if f.Wires != nil {
		args = append(args, f.clusterArguments(n)...)
	}
	return append(args, f.o.Args...)
}

// Beanstalkd is where clients of beanstalkd's protocol find the nodes that there are.
func (f *Fleet) Beanstalkd() []string {
	return f.addresses(func(n *Node) string { return n.Beanstalkd })
}

// Gearman is where Gearman's clients do; nil: nowhere.
func (f *Fleet) Gearman() []string {
	if !f.o.Gearman {
		return nil
	}
	return f.addresses(func(n *Node) string { return n.Gearman })
}

func (f *Fleet) addresses(of func(*Node) string) []string {
	var all []string
	for _, n := range f.Nodes {
		all = append(all, of(n))
	}
	return all
}

// Accidents are the ends that nobody ordered, since it was last asked.
func (f *Fleet) Accidents() []Accident {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.accidents
	f.accidents = nil
	return all
}

func (f *Fleet) happened(a Accident) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.accidents = append(f.accidents, a)
}

// Close kills all nodes, and ends what lies between them.
func (f *Fleet) Close() error {
	for _, n := range f.Nodes {
		n.Kill()
		n.log.Close()
	}
	if f.Wires != nil {
		return f.Wires.close()
	}
	return nil
}

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// freePorts finds ports that stay the nodes' while these are away: below those that the
// kernel gives to whoever calls.
func freePorts(n int) ([]int, error) {
	var free []int
	for range 1000 {
		port := 12000 + rand.IntN(20000)
		l, err := net.Listen("tcp", local(port))
		if err != nil {
			continue
		}
		l.Close()
		if !slices.Contains(free, port) {
			free = append(free, port)
		}
		if len(free) == n {
			return free, nil
		}
	}
	return nil, errors.New("there is no free port on 127.0.0.1 between 12000 and 32000")
}
