package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"polystalk/codec/wiretest/relay"
	"polystalk/loadtest/bench"
)

// A fleet is all nodes of a run and the relays between them. All processes end with this one. One
// goroutine adds and removes nodes; any may ask for their addresses.
//
// Relays make partitions, because the kernel's means need netfilter or netem, which not every
// machine has. A node connects to a relay for each other node instead of to the node itself.
type fleet struct {
	dir      string // has all files of the run
	programs []string
	args     []string // of all nodes
	disk     string   // size of each node's disk in memory, in mount's format; empty: none
	cluster  bool
	spawner  bench.Spawner
	wires    map[wire]*relay.Relay

	made      int
	accidents []string // unexpected ends of nodes

	mu    sync.Mutex
	nodes []*node
}

// A wire is the direction between two nodes, by number, of the connections that from opens to to.
type wire struct{ from, to int }

// makeNodes makes n nodes with their own addresses, and starts none.
func (f *fleet) makeNodes(n int) error {
	f.spawner, f.wires, f.cluster = bench.NewSpawner(), make(map[wire]*relay.Relay), n > 1
	for i := range n {
		if _, err := f.add(f.programs[i%len(f.programs)]); err != nil {
			return errors.Join(err, f.close())
		}
	}
	return nil
}

// add makes one more node.
func (f *fleet) add(program string) (*node, error) {
	n := &node{name: fmt.Sprintf("n%d", f.made+1), number: f.made, program: program, fleet: f}
	f.made++
	n.dir = filepath.Join(f.dir, n.name)
	for _, addr := range []*string{&n.beanstalkd, &n.gearman, &n.cluster} {
		port, err := bench.FreePort()
		if err != nil {
			return nil, err
		}
		*addr = net.JoinHostPort("127.0.0.1", port)
	}
	if err := os.MkdirAll(n.dir, 0o700); err != nil {
		return nil, err
	}
	var err error
	if n.log, err = os.Create(filepath.Join(f.dir, n.name+".log")); err != nil {
		return nil, err
	}
	if f.disk != "" {
		if err := mount(n.dir, f.disk); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range f.nodes {
		for _, pair := range [][2]*node{{n, o}, {o, n}} {
			r, err := relay.Listen("127.0.0.1:0", pair[1].cluster)
			if err != nil {
				return nil, err
			}
			f.wires[wire{pair[0].number, pair[1].number}] = r
		}
	}
	f.nodes = append(f.nodes, n)
	return n, nil
}

// drop removes a node permanently.
func (f *fleet) drop(n *node) error {
	err := f.end(n)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nodes = slices.DeleteFunc(f.nodes, func(o *node) bool { return o == n })
	return err
}

// end kills a node and releases its files.
func (f *fleet) end(n *node) error {
	n.kill()
	err := n.log.Close()
	if f.disk != "" {
		err = errors.Join(err, unmount(n.dir))
	}
	return err
}

func (f *fleet) all() []*node {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.nodes)
}

// arguments returns the flags of a node's next start. The first node creates the cluster, and every
// other one joins it; a node that is a member needs neither flag.
func (f *fleet) arguments(n *node) []string {
	_, port, _ := net.SplitHostPort(n.beanstalkd)
	args := []string{"-l", "127.0.0.1", "-p", port, "-b", n.dir, "--gearman-listen", n.gearman}
	if f.cluster {
		args = append(args, "--cluster-listen", n.cluster, "--cluster-node", n.name, "--cluster-timeout", timeout.String())
		var join []string
		for _, o := range f.all() {
			if r := f.wires[wire{n.number, o.number}]; r != nil {
				args = append(args, "--cluster-dial", o.cluster+"="+r.Addr())
			}
			if o != n && o.member {
				join = append(join, "--cluster-join", o.cluster)
			}
		}
		if len(join) == 0 {
			join = []string{"--cluster-new"}
		}
		if !n.member {
			args = append(args, join...)
		}
	}
	if !f.cluster {
		args = append(args, "--http", "unix:"+n.socket())
	}
	return append(args, f.args...)
}

// cut holds back bytes from one node to another, on connections that either node opened.
func (f *fleet) cut(from, to *node) {
	if r := f.wires[wire{from.number, to.number}]; r != nil {
		r.Hold(relay.Out)
	}
	if r := f.wires[wire{to.number, from.number}]; r != nil {
		r.Hold(relay.Back)
	}
}

// mend lets all bytes flow again. With forget it resets all connections first, so the bytes that
// were held back never arrive.
func (f *fleet) mend(forget bool) {
	for _, r := range f.wires {
		if forget {
			r.Reset()
		}
		r.Pass()
	}
}

// reset breaks all connections from or to n.
func (f *fleet) reset(n *node) {
	for k, r := range f.wires {
		if k.from == n.number || k.to == n.number {
			r.Reset()
		}
	}
}

// takeAccidents returns the accidents since the last call.
func (f *fleet) takeAccidents() []string {
	for _, n := range f.all() {
		if !n.running() {
			n.expect()
		}
	}
	all := f.accidents
	f.accidents = nil
	return all
}

// close kills all nodes and ends the relays.
func (f *fleet) close() error {
	var all []error
	for _, n := range f.all() {
		all = append(all, f.end(n))
	}
	for _, r := range f.wires {
		all = append(all, r.Close())
	}
	return errors.Join(all...)
}
