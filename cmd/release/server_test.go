package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait for a server; a test that meets it has failed.
const patience = time.Minute

// A server is a polystalkd that serves.
type server struct {
	t    *testing.T
	cmd  *exec.Cmd
	addr string
	once sync.Once
}

// start runs cmd, a polystalkd with --log-format json, until it serves.
func start(t *testing.T, cmd *exec.Cmd) *server {
	t.Helper()
	log, err := cmd.StderrPipe()
	must(t, err)
	must(t, cmd.Start())
	s := &server{t: t, cmd: cmd}
	t.Cleanup(s.stop)
	giveUp := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	defer giveUp.Stop()
	var said bytes.Buffer
	in := bufio.NewScanner(io.TeeReader(log, &said))
	for s.addr == "" && in.Scan() {
		var line struct {
			Msg    string
			Listen []string
		}
		if json.Unmarshal(in.Bytes(), &line) == nil && line.Msg == "serving" {
			s.addr = line.Listen[0]
		}
	}
	if s.addr == "" {
		t.Fatalf("polystalkd ended instead of serving:\n%s", &said)
	}
	go io.Copy(io.Discard, log)
	return s
}

// stop ends it as a service manager does.
func (s *server) stop() {
	s.once.Do(func() {
		s.cmd.Process.Signal(syscall.SIGTERM)
		giveUp := time.AfterFunc(patience, func() { s.cmd.Process.Kill() })
		defer giveUp.Stop()
		if err := s.cmd.Wait(); err != nil {
			s.t.Errorf("polystalkd: %v", err)
		}
	})
}

// talk sends commands and returns the first count lines of the answer.
func (s *server) talk(commands string, count int) string {
	s.t.Helper()
	conn, err := net.DialTimeout("tcp", s.addr, patience)
	must(s.t, err)
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(conn, commands); err != nil {
		s.t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	var got strings.Builder
	for range count {
		line, err := r.ReadString('\n')
		if err != nil {
			s.t.Fatalf("%q: %q, %v", commands, got.String(), err)
		}
		got.WriteString(line)
	}
	return got.String()
}

// state is what stats-job has of a job that must not change.
func (s *server) state(id int) string {
	s.t.Helper()
	conn, err := net.DialTimeout("tcp", s.addr, patience)
	must(s.t, err)
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(conn, "peek %d\r\nstats-job %d\r\n", id, id)
	r := bufio.NewReader(conn)
	var kept []string
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			s.t.Fatalf("job %d: %q, %v", id, kept, err)
		}
		key, _, _ := strings.Cut(line, ":")
		if strings.HasPrefix(line, "OK ") {
			continue // how much stats-job has to say, which its clock has a part in
		}
		switch key {
		case "tube", "state", "pri", "ttr", "reserves", "buries":
			kept = append(kept, strings.TrimSpace(line))
		case "id", "age", "delay", "time-left", "file", "timeouts", "releases", "---\n":
		case "kicks":
			return strings.Join(kept, ", ")
		default:
			kept = append(kept, strings.TrimSpace(line)) // what peek shows
		}
	}
}
