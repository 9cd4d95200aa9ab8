package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"polystalk/loadtest/faults/nodes"
)

// serveCluster runs a cluster until it is told to end, for the load tester's -compare.
// Whoever leads at first, the node at the port is made to lead, or another than it; then a
// file is made, since somebody answers at the port long before.
func serveCluster(ctx context.Context, args []string) (err error) {
	var program, via, dir, ready, more string
	var port, count int
	fs := flag.NewFlagSet("faults cluster", flag.ContinueOnError)
	fs.StringVar(&program, "program", "bin/polystalkd", "the server's `program`")
	fs.StringVar(&via, "via", "leader", "whom clients of the port meet, the leader or a follower")
	fs.IntVar(&port, "port", 11300, "the `port` on 127.0.0.1")
	fs.StringVar(&dir, "dir", "", "empty `directory` for all journals")
	fs.StringVar(&ready, "ready", "", "make this `file` when the cluster is whole")
	fs.IntVar(&count, "nodes", 3, "how many")
	fs.StringVar(&more, "args", "", "more `flags` for the servers")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if dir == "" || fs.NArg() > 0 || count < 2 || via != "leader" && via != "follower" {
		return errors.New("cluster: give -dir, two -nodes or more, -via leader or follower, and nothing else")
	}
	programs, err := findPrograms(program)
	if err != nil {
		return err
	}
	f, err := nodes.New(nodes.Options{Dir: dir, Programs: programs, Nodes: count, Args: strings.Fields(more), Timeout: 500 * time.Millisecond, Direct: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	met := f.All()[0]
	met.Beanstalkd = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	r := &run{o: &options{nodes: count}, fleet: f}
	if err := r.startAll(ctx); err != nil {
		return err
	}
	if err := r.lead(ctx, met, via == "leader"); err != nil {
		return err
	}
	if ready != "" {
		if err := os.WriteFile(ready, nil, 0o600); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}

// lead has n lead, or any other.
func (r *run) lead(ctx context.Context, n *nodes.Node, leads bool) error {
	for range 5 {
		leader, _, err := r.fleet.Leader(ctx)
		if err != nil {
			return err
		}
		if (leader == n) == leads {
			return nil
		}
		to := n
		if !leads {
			to = r.fleet.All()[1]
		}
		if err := leader.Transfer(ctx, to); err != nil {
			return err
		}
		if err := r.whole(ctx); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s does not get its part", n.Name)
}
