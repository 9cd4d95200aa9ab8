package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"polystalk/codec/admin"
	"polystalk/loadtest/bench"
)

// A node is one server, running or not: its process, directory, addresses and log. One goroutine
// uses it.
type node struct {
	name       string
	number     int
	dir        string // of its journal
	program    string // that the next start runs
	beanstalkd string // addresses
	gearman    string
	cluster    string // address for the other nodes, which use it through the wires
	member     bool   // its directory has the identity of a member of the cluster
	// wrapper precedes the command line of the next start. It is a program that runs the server and
	// keeps the process id.
	wrapper []string

	fleet *fleet
	log   *os.File

	process *bench.Process // nil: it was never started
	starts  int
	told    bool // the end of process is expected, or was reported
}

// start starts the process. It does not wait until the node serves.
func (n *node) start() error {
	if n.running() {
		return fmt.Errorf("%s runs already", n.name)
	}
	n.expect()
	args := slices.Concat(n.wrapper, []string{n.program}, n.fleet.arguments(n))
	fmt.Fprintf(n.log, "# %s %q\n", time.Now().Format("15:04:05.000"), args)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = n.log, n.log
	p, err := n.fleet.spawner.Start(cmd, nil)
	if err != nil {
		return err
	}
	n.process, n.told = p, false
	n.starts++
	return nil
}

// running reports whether there is a process, even a stopped one.
func (n *node) running() bool { return n.process != nil && n.process.Running() }

// signal sends the process a signal, if there is one.
func (n *node) signal(s syscall.Signal) {
	if n.running() {
		n.process.Process.Signal(s) // it may have ended just now
	}
}

// expect makes the end of the process expected. If it has ended before, that is an accident.
func (n *node) expect() {
	if n.process != nil && !n.told && !n.running() {
		n.fleet.accidents = append(n.fleet.accidents, fmt.Sprintf("%s ended by itself: %v", n.name, n.process.ProcessState))
	}
	n.told = true
}

// kill kills the process and waits until it has ended.
func (n *node) kill() {
	n.expect()
	if n.running() {
		n.signal(syscall.SIGKILL)
		<-n.process.Ended
	}
}

// terminate asks the process to end and waits until it has ended. After 30 seconds it kills the
// process and returns an error.
func (n *node) terminate() error {
	n.expect()
	if n.running() && !n.process.Terminate(30*time.Second) {
		return fmt.Errorf("%s did not end 30 s after SIGTERM", n.name)
	}
	return nil
}

// wipe empties the directory of a node that is not running.
func (n *node) wipe() error {
	if n.running() {
		return fmt.Errorf("%s runs", n.name)
	}
	entries, err := os.ReadDir(n.dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(n.dir, e.Name())))
	}
	return err
}

// socket returns the path of the socket for operators.
func (n *node) socket() string { return filepath.Join(n.dir, "cluster.sock") }

// request sends a request to the socket in the node's directory, and decodes the answer into to,
// which may be nil.
func (n *node) request(ctx context.Context, method, path string, body, to any) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://localhost/api/v1"+path, bytes.NewReader(b))
	if err != nil {
		return err
	}
	if req.Header.Set("Content-Type", "application/json"); body == nil {
		req.Body, req.ContentLength = nil, 0
	}
	t := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", n.socket())
	}}
	res, err := t.RoundTrip(req)
	if err == nil {
		defer res.Body.Close()
		b, err = io.ReadAll(io.LimitReader(res.Body, 1<<20))
	}
	if err == nil && res.StatusCode/100 != 2 {
		err = fmt.Errorf("%s: %.300s", res.Status, b)
	} else if err == nil && to != nil {
		err = json.Unmarshal(b, to)
	}
	if err != nil {
		return fmt.Errorf("%s: %s %s: %w", n.name, method, path, err)
	}
	return nil
}

// transfer transfers the leadership from n to to.
func (n *node) transfer(ctx context.Context, to *node) error {
	return n.request(ctx, "POST", "/cluster/transfer", admin.ClusterTransfer{Node: to.name}, nil)
}

// remove removes another node from the cluster.
func (n *node) remove(ctx context.Context, other *node) error {
	return n.request(ctx, "DELETE", "/cluster/members/"+url.PathEscape(other.name), nil, nil)
}

// leader returns the node that claims to lead in the latest term, and its view of the cluster. A
// node forwards the question to the leader that it knows.
func (f *fleet) leader(ctx context.Context) (leader *node, latest admin.Cluster, err error) {
	all := f.all()
	for _, n := range all {
		if !n.running() {
			continue
		}
		var c admin.Cluster
		within, cancel := context.WithTimeout(ctx, time.Second)
		err := n.request(within, "GET", "/cluster", nil, &c)
		cancel()
		if err != nil || c.Role != "leader" || leader != nil && c.Term <= latest.Term {
			continue
		}
		for _, o := range all {
			if o.name == c.Node {
				leader, latest = o, c
			}
		}
	}
	if leader == nil {
		return nil, latest, errors.New("no server says that it leads")
	}
	return leader, latest, nil
}
