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

// patience bounds every wait for a server; a test that reaches it has failed.
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

// stop ends the server like a service manager.
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

// dial opens a connection, writes commands, and reads lines until enough returns true.
func (s *server) dial(commands string, enough func(line string) bool) {
	s.t.Helper()
	conn, err := net.DialTimeout("tcp", s.addr, patience)
	must(s.t, err)
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	_, err = io.WriteString(conn, commands)
	must(s.t, err)
	for r := bufio.NewReader(conn); ; {
		line, err := r.ReadString('\n')
		if err != nil {
			s.t.Fatalf("%.200q: %q, %v", commands, line, err)
		}
		if enough(line) {
			return
		}
	}
}

// talk sends commands and returns the first count lines of the answer.
func (s *server) talk(commands string, count int) string {
	s.t.Helper()
	var got strings.Builder
	s.dial(commands, func(line string) bool {
		got.WriteString(line)
		count--
		return count == 0
	})
	return got.String()
}

// state returns the parts of peek and stats-job that must not change.
func (s *server) state(id int) string {
	s.t.Helper()
	var kept []string
	s.dial(fmt.Sprintf("peek %d\r\nstats-job %d\r\n", id, id), func(line string) bool {
		key, _, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch key {
		case "id", "age", "delay", "time-left", "file", "timeouts", "releases", "---", "kicks":
		default:
			if !strings.HasPrefix(line, "OK ") { // how much stats-job has to say, which its clock has a part in
				kept = append(kept, strings.TrimSpace(line))
			}
		}
		return key == "kicks"
	})
	return strings.Join(kept, ", ")
}
