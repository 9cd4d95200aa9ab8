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
	"polystalk/loadtest/bench"
)

// Options are what a Fleet is made with.
type Options struct {
	Dir      string   // of everything; it must be there
	Programs []string // the nodes' in turn
	Nodes    int      // 1: a server by itself, with -b
	Gearman  bool
	Args     []string      // of all nodes
	Timeout  time.Duration // of elections
	Direct   bool          // nodes connect to each other without Wires between
	Disk     string        // the size of each node's disk, of memory, as mount has it; empty: that of Dir
}

// A Fleet is all nodes of a run. Nodes come and go by one goroutine; where they are may
// be asked by any.
type Fleet struct {
	o       Options
	Wires   *Wires // nil: there is one node
	spawner bench.Spawner

	mu        sync.Mutex
	nodes     []*Node
	made      int
	accidents []Accident
}

// New makes the nodes, with addresses of their own, and starts none.
func New(o Options) (*Fleet, error) {
	f := &Fleet{o: o, spawner: bench.NewSpawner()}
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
	n := &Node{Name: fmt.Sprintf("n%d", f.made+1), Number: f.made, Program: program, fleet: f}
	f.made++
	n.Dir = filepath.Join(f.o.Dir, n.Name)
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	n.Beanstalkd, n.Gearman, n.Cluster = local(ports[0]), local(ports[1]), local(ports[2])
	if err := os.MkdirAll(n.Dir, 0o700); err != nil {
		return nil, err
	}
	if n.log, err = os.Create(filepath.Join(f.o.Dir, n.Name+".log")); err != nil {
		return nil, err
	}
	if f.o.Disk != "" {
		if err := mount(n.Dir, f.o.Disk); err != nil {
			return nil, err
		}
	}
	if f.Wires != nil && !f.o.Direct {
		if err := f.Wires.join(n, f.nodes); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nodes = append(f.nodes, n)
	return n, nil
}

// Drop ends a node for good.
func (f *Fleet) Drop(n *Node) error {
	err := f.end(n)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nodes = slices.DeleteFunc(f.nodes, func(o *Node) bool { return o == n })
	return err
}

// end kills a node and gives back what it has.
func (f *Fleet) end(n *Node) error {
	n.Kill()
	err := n.log.Close()
	if f.o.Disk != "" {
		err = errors.Join(err, unmount(n.Dir))
	}
	return err
}

// All are the nodes that there are.
func (f *Fleet) All() []*Node {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.nodes)
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

// Gearman is where Gearman's clients do.
func (f *Fleet) Gearman() []string {
	return f.addresses(func(n *Node) string { return n.Gearman })
}

func (f *Fleet) addresses(of func(*Node) string) []string {
	var all []string
	for _, n := range f.All() {
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
	var all []error
	for _, n := range f.All() {
		all = append(all, f.end(n))
	}
	if f.Wires != nil {
		all = append(all, f.Wires.close())
	}
	return errors.Join(all...)
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
