package nodes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// A Node is one server, running or not. It is used by one goroutine.
type Node struct {
	Name       string
	Number     int
	Dir        string // its journal's
	Program    string // that the next Start runs
	Beanstalkd string // addresses of clients
	Gearman    string
	Cluster    string // that of the other nodes; they are made to go through Wires
	Member     bool   // it has been started as one of the cluster, whose identity its directory has

	// Wrapper is put before the command line of the next Start, to have it run by
	// another program that does not change its process id.
	Wrapper []string
	// More are further arguments of the next Start.
	More []string

	fleet *Fleet
	log   *os.File

	mu    sync.Mutex
	cmd   *exec.Cmd
	told  bool          // its end was ordered
	ended chan struct{} // closed when the process has ended; nil: it was never started
}

// An Accident is that a node ended without being told to.
type Accident struct {
	Node string `json:"node"`
	How  string `json:"how"`
}

// Start starts the node; that it serves is for clients to see.
func (n *Node) Start() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.running() {
		return fmt.Errorf("%s runs already", n.Name)
	}
	if err := os.MkdirAll(n.Dir, 0o700); err != nil {
		return err
	}
	args := append(append([]string{}, n.Wrapper...), n.Program)
	args = append(append(args, n.fleet.arguments(n)...), n.More...)
	fmt.Fprintf(n.log, "# %s %q\n", time.Now().Format("15:04:05.000"), args)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = n.log, n.log
	if err := n.fleet.spawner.Start(cmd, nil); err != nil {
		return err
	}
	ended := make(chan struct{})
	n.cmd, n.told, n.ended = cmd, false, ended
	go func() {
		err := cmd.Wait()
		n.mu.Lock()
		defer n.mu.Unlock()
		fmt.Fprintf(n.log, "# %s ended: %v\n", time.Now().Format("15:04:05.000"), err)
		if !n.told {
			n.fleet.happened(Accident{n.Name, fmt.Sprint(cmd.ProcessState)})
		}
		close(ended)
	}()
	return nil
}

// running reports whether there is a process, under the lock.
func (n *Node) running() bool {
	if n.ended == nil {
		return false
	}
	select {
	case <-n.ended:
		return false
	default:
		return true
	}
}

// Running reports whether there is a process, stopped or not.
func (n *Node) Running() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.running()
}

// PID is that of the process; 0: there is none.
func (n *Node) PID() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.running() {
		return 0
	}
	return n.cmd.Process.Pid
}

// Signal sends the process a signal, if there is one.
func (n *Node) Signal(s syscall.Signal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.running() {
		n.cmd.Process.Signal(s) // it may have ended just now
	}
}

// end orders the end.
func (n *Node) end(s syscall.Signal) <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.running() {
		done := make(chan struct{})
		close(done)
		return done
	}
	n.told = true
	n.cmd.Process.Signal(s)
	return n.ended
}

// Kill kills the process and returns when it is gone.
func (n *Node) Kill() { <-n.end(syscall.SIGKILL) }

// Expect tells that the process may end by itself from now on.
func (n *Node) Expect() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.told = true
}

// Ended is closed when the process has ended; nil if it was never started.
func (n *Node) Ended() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ended
}

// Terminate asks the process to end and returns when it has. After a while it is
// killed, which is an error.
func (n *Node) Terminate(ctx context.Context, within time.Duration) error {
	ended := n.end(syscall.SIGTERM)
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		n.Kill()
		return context.Cause(ctx)
	case <-time.After(within):
		n.Kill()
		return fmt.Errorf("%s did not end %v after SIGTERM", n.Name, within)
	}
}

// Wipe empties the directory of a node that does not run.
func (n *Node) Wipe() error {
	if n.Running() {
		return fmt.Errorf("%s runs", n.Name)
	}
	entries, err := os.ReadDir(n.Dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(n.Dir, e.Name())))
	}
	return err
}

// Bytes is what the files in the node's directory hold. What goes meanwhile counts nothing.
func (n *Node) Bytes() (sum int64) {
	entries, _ := os.ReadDir(n.Dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			sum += info.Size()
		}
	}
	return sum
}
