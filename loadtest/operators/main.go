// Operators measures what operators cost the clients of a server: it keeps both protocols
// busy at a steady rate, and has somebody use the HTTP API beside them, by turns: a while
// with him, a while without. What it prints are latencies of commands with and without, and
// what he has got done.
//
//	go run ./loadtest/operators -server bin/polystalkd
//
// He is a process of his own. A crowd is one of the lowest priority: on a machine of few
// processors its own work must not be taken for the server's. For the same reason what a scene
// costs is compared with what a process costs that has nothing to do with the server.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"polystalk/loadtest/bench"
)

var (
	server   = flag.String("server", "bin/polystalkd", "the server's program")
	jobs     = flag.Int("jobs", 1_000_000, "jobs that wait meanwhile")
	tubes    = flag.Int("tubes", 1, "tubes that they are in")
	body     = flag.Int("body", 64, "bytes of each of their bodies")
	rate     = flag.Int("rate", 1500, "cycles a second, of each protocol")
	rounds   = flag.Int("rounds", 5, "how often each scene is played")
	length   = flag.Duration("spell", time.Second, "how long a scene is played at least, and the load alone each time")
	only     = flag.String("scenes", "", "those to be played, by their names; empty: all")
	assert   = flag.Bool("goals", false, "exit with 1 when a goal is missed")
	scene    = flag.String("scene", "", "play this one on the socket that is named: what the process of the operator is told")
	socket   = flag.String("socket", "", "of that")
	more     = flag.String("args", "", "more flags for the server")
	journals = flag.Bool("b", false, "the server keeps a journal")
)

func main() {
	flag.Parse()
	if *scene != "" {
		play(*scene, *socket)
		return
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "operators:", err)
		os.Exit(1)
	}
}

func run() error {
	dir, err := os.MkdirTemp("", "operators")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s, err := startServer(dir)
	if err != nil {
		return err
	}
	defer s.stop()
	fmt.Printf("%d jobs of %d bytes in %d tubes; %d cycles a second of each protocol; %d rounds of at least %v\n", *jobs, *body, *tubes, *rate, *rounds, *length)
	if err := fill(s.address, *jobs, *tubes, *body); err != nil {
		return err
	}
	l, err := startLoad(s, *rate)
	if err != nil {
		return err
	}
	time.Sleep(*length)
	missed := false
	for _, sc := range scenes {
		if *only != "" && !sc.control && !slices.Contains(strings.Split(*only, ","), sc.name) {
			continue
		}
		r, err := measure(s, l, sc.name)
		if err != nil {
			return fmt.Errorf("%s: %w", sc.name, err)
		}
		r.print()
		if sc.control {
			floor[niceness[sc.name]] = r.with.at(0.99)
		}
		for _, why := range r.missed(&sc) {
			missed = true
			fmt.Println("  MISSED:", why)
		}
	}
	if err := l.stop(); err != nil {
		return err
	}
	if missed && *assert {
		return fmt.Errorf("a goal is missed")
	}
	return nil
}

// floor is what commands take at p99 beside a process that has nothing to do with the server,
// by its niceness: nobody who uses the server from the same machine could cost less.
var floor = make(map[int]time.Duration)

// measure plays a scene, by turns with nothing.
func measure(s *daemon, l *load, name string) (*result, error) {
	r := &result{name: name}
	r.rss, _ = bench.RSS(s.cmd.Process.Pid)
	for range *rounds {
		alone, beside := new(spell), new(spell)
		r.without, r.with = append(r.without, alone), append(r.with, beside)
		end := s.spell(l, alone)
		time.Sleep(*length)
		end()
		rss, _ := bench.RSS(s.cmd.Process.Pid)
		r.rss = min(r.rss, rss)

		var before steps
		var asked error
		out, err := s.operate(name, func() {
			before, asked = s.steps()
			end = s.spell(l, beside)
		}, func() {
			rss, _ := bench.RSS(s.cmd.Process.Pid)
			r.rssMost = max(r.rssMost, rss)
		})
		end()
		if err = errors.Join(err, asked); err != nil {
			return nil, err
		}
		after, err := s.steps()
		if err != nil {
			return nil, err
		}
		r.steps = r.steps.plus(after.since(before))
		r.told = append(r.told, out)
		time.Sleep(*length / 4)
	}
	return r, nil
}

// spell has a spell begin; end ends it.
func (s *daemon) spell(l *load, sp *spell) (end func()) {
	pid := s.cmd.Process.Pid
	cpu, _ := bench.CPU(pid)
	start := time.Now()
	l.record(&sp.samples)
	return func() {
		l.record(nil)
		now, _ := bench.CPU(pid)
		sp.cpu, sp.took = now-cpu, time.Since(start)
	}
}

// A report is what the operator's process tells of a scene.
type report struct {
	Took    time.Duration
	Did     map[string]int
	Longest map[string]time.Duration
	Err     string
}

// operate plays a scene once, in a process of its own.
func (s *daemon) operate(name string, begun, meanwhile func()) (r report, err error) {
	cmd := exec.Command("nice", "-n", fmt.Sprint(niceness[name]), os.Args[0], "-scene", name, "-socket", s.socket, "-spell", length.String(), "-jobs", fmt.Sprint(*jobs))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return r, err
	}
	if err := cmd.Start(); err != nil {
		return r, err
	}
	told := bufio.NewReader(out)
	if line, err := told.ReadString('\n'); line != begins+"\n" {
		return r, errors.Join(fmt.Errorf("%s says %q", name, line), err, cmd.Wait())
	}
	begun()
	done := make(chan error, 1)
	go func() { done <- json.NewDecoder(told).Decode(&r) }()
	for {
		select {
		case err = <-done:
			if wait := cmd.Wait(); err == nil {
				err = wait
			}
			if err == nil && r.Err != "" {
				err = fmt.Errorf("%s", r.Err)
			}
			return r, err
		case <-time.After(20 * time.Millisecond):
			meanwhile()
		}
	}
}

// A daemon is the server under test.
type daemon struct {
	cmd                      *exec.Cmd
	address, gearman, socket string
}

func startServer(dir string) (*daemon, error) {
	s := &daemon{socket: filepath.Join(dir, "http.sock")}
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	s.address, s.gearman = fmt.Sprintf("127.0.0.1:%d", ports[0]), fmt.Sprintf("127.0.0.1:%d", ports[1])
	args := []string{"-l", "127.0.0.1", "-p", fmt.Sprint(ports[0]), "--gearman-listen", s.gearman, "--http", "unix:" + s.socket, "--log-level", "warn"}
	args = append(args, strings.Fields(*more)...)
	if *journals {
		args = append(args, "-b", filepath.Join(dir, "journal"))
		if err := os.Mkdir(filepath.Join(dir, "journal"), 0o700); err != nil {
			return nil, err
		}
	}
	s.cmd = exec.Command(*server, args...)
	s.cmd.Stderr = os.Stderr
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		s.stop()
		os.RemoveAll(dir)
		os.Exit(1)
	}()
	if err := s.await(); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *daemon) stop() {
	s.cmd.Process.Kill()
	s.cmd.Wait()
}
