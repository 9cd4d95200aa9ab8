package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"polystalk/loadtest/faults/nodes"
)

// serveCluster runs a cluster until it is told to end, for the load tester's -compare,
// which measures as soon as somebody answers at the port. So the cluster is made at other
// ports, ended, and started again, and then the node that is to lead comes first: it asks
// for votes before any other does.
func serveCluster(ctx context.Context, args []string) (err error) {
	var program, via, dir, more string
	var port, count int
	fs := flag.NewFlagSet("faults cluster", flag.ContinueOnError)
	fs.StringVar(&program, "program", "bin/polystalkd", "the server's `program`")
	fs.StringVar(&via, "via", "leader", "whom clients of the port meet, the leader or a follower")
	fs.IntVar(&port, "port", 11300, "the `port` on 127.0.0.1")
	fs.StringVar(&dir, "dir", "", "empty `directory` for all journals")
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
	f, err := nodes.New(nodes.Options{Dir: dir, Programs: programs, Nodes: count, Args: strings.Fields(more), Timeout: 500 * time.Millisecond})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r := &run{o: &options{nodes: count}, fleet: f}
	if err := r.startAll(ctx); err != nil {
		return err
	}
	all := f.All()
	for i := range all {
		n := all[len(all)-1-i] // the leader last, which has all of the log
		n.Kill()
	}
	met := all[0]
	if via == "follower" {
		met = all[1]
	}
	met.Beanstalkd = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	for _, n := range all {
		if err := n.Start(); err != nil {
			return err
		}
	}
	if err := r.whole(ctx); err != nil {
		return err
	}
	if leader, _, err := f.Leader(ctx); err != nil || leader != all[0] {
		return errors.Join(err, errors.New("cluster: another node leads than the first one; try again"))
	}
	fmt.Println("serving")
	<-ctx.Done()
	return nil
}
