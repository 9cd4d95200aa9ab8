package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"polystalk/codec/admin"
)

// serveCluster runs a cluster until ctx ends, for the load tester's -compare. It makes the
// node at the port lead, or another than it, and then makes a file: the port answers long
// before.
func serveCluster(ctx context.Context, args []string) (err error) {
	fs := flag.NewFlagSet("faults cluster", flag.ContinueOnError)
	program := fs.String("program", "bin/polystalkd", "the server's `program`")
	via := fs.String("via", "leader", "what clients of the port meet, the leader or a follower")
	port := fs.Int("port", 11300, "the `port` on 127.0.0.1")
	dir := fs.String("dir", "", "empty `directory` for all journals")
	ready := fs.String("ready", "", "make this `file` when the cluster is complete")
	count := fs.Int("nodes", 3, "number of servers")
	more := fs.String("args", "", "more `flags` for the servers")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if *dir == "" || fs.NArg() > 0 || *count < 2 || *via != "leader" && *via != "follower" {
		return errors.New("cluster: give -dir, two -nodes or more, -via leader or follower, and nothing else")
	}
	programs, err := findPrograms(*program)
	if err != nil {
		return err
	}
	r := &run{o: &options{nodes: *count}, fleet: &fleet{dir: *dir, programs: programs, args: strings.Fields(*more), direct: true}}
	if err := r.fleet.makeNodes(*count); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.fleet.close()) }()
	met := r.fleet.all()[0]
	met.beanstalkd = local(*port)
	if err := r.startAll(ctx); err != nil {
		return err
	}
	if err := r.makeLead(ctx, met, *via == "leader"); err != nil {
		return err
	}
	if *ready != "" {
		if err := os.WriteFile(*ready, nil, 0o600); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}

// makeLead makes n lead, or any other node.
func (r *run) makeLead(ctx context.Context, n *node, leads bool) error {
	for range 5 {
		leader, _, err := r.fleet.leader(ctx)
		if err != nil {
			return err
		}
		if (leader == n) == leads {
			return nil
		}
		to := n
		if !leads {
			to = r.fleet.all()[1]
		}
		if err := leader.transfer(ctx, to); err != nil {
			return err
		}
		if err := r.complete(ctx); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s does not get its role", n.name)
}

// complete returns once all nodes of a cluster vote and are connected, as the leader says.
func (r *run) complete(ctx context.Context) error {
	if r.o.nodes == 1 {
		return nil
	}
	for limit := time.Now().Add(recovery); ; sleep(ctx, 20*time.Millisecond) {
		_, c, err := r.fleet.leader(ctx)
		if err == nil {
			err = r.missing(c)
		}
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case time.Now().After(limit):
			return fmt.Errorf("the cluster is not complete after %v: %w", recovery, err)
		}
	}
}

// missing returns which node does not vote or is not connected.
func (r *run) missing(c admin.Cluster) error {
	known := make(map[string]admin.ClusterMember)
	for _, m := range c.Members {
		known[m.Name] = m
	}
	for _, n := range r.fleet.all() {
		switch m, ok := known[n.name]; {
		case !ok:
			return fmt.Errorf("%s is no member", n.name)
		case m.Kind != admin.MemberVotes:
			return fmt.Errorf("%s is %s", n.name, m.Kind)
		case !m.Leads && !m.Connected:
			return fmt.Errorf("%s is not connected: %s", n.name, m.Trouble)
		}
	}
	return nil
}
