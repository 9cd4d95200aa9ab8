// Operators measures what operators cost the clients of a server. It keeps both protocols busy at a
// steady rate and plays scenes of an operator, or of hostile HTTP clients. Spells with and without
// the scene alternate. It prints the latencies of commands in both, and what the scene did.
//
//	go run ./loadtest/operators -server bin/polystalkd
//
// A scene is a separate process. A crowd has the lowest priority: on a machine with few processors
// its own work must not count as the server's. For the same reason a scene is compared with a
// process that does not use the server.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
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
	program = flag.String("server", "bin/polystalkd", "the server's `program`")
	jobs    = flag.Int("jobs", 1_000_000, "waiting jobs")
	tubes   = flag.Int("tubes", 1, "tubes of the waiting jobs")
	body    = flag.Int("body", 64, "bytes of each body of the waiting jobs")
	length  = flag.Duration("spell", time.Second, "minimum duration of a scene, and of the load alone")
	only    = flag.String("scenes", "", "the `names` of the scenes to be played, separated by commas; empty: all")
	assert  = flag.Bool("goals", false, "exit with 1 when a goal is missed")
	played  = flag.String("scene", "", "play this scene in this process, on -socket")
	socket  = flag.String("socket", "", "the `path` of the server's HTTP socket")

	rounds = 5    // of each scene
	rate   = 1500 // commands per second of beanstalkd's protocol; Gearman has a quarter as many jobs
)

// felt is the most that a scene may add to the p99 of commands, in microseconds.
const felt = 1000

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "operators:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	if *played != "" {
		return play(*played)
	}
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
	fmt.Printf("%d jobs of %d bytes in %d tubes; %d commands per second; %d rounds of at least %v\n", *jobs, *body, *tubes, rate, rounds, *length)
	if err := s.fill(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	loads := make(chan error, 2)
	for _, l := range [][3]string{{"beanstalkd", s.beanstalkd, fmt.Sprintf("cycle conns=8 rate=%d", rate)},
		{"gearman", s.gearman, fmt.Sprintf("foreground conns=8 workers=2 rate=%d", max(1, rate/4))}} {
		go func() { loads <- bench.Beside(ctx, l[0], l[1], l[2], &s.latencies) }()
	}
	defer func() {
		cancel()
		err = errors.Join(err, <-loads, <-loads)
	}()
	time.Sleep(*length)
	missed := false
	for _, sc := range scenes {
		if *only != "" && !sc.control && !slices.Contains(strings.Split(*only, ","), sc.name) || ctx.Err() != nil {
			continue
		}
		r := &result{scene: sc}
		for range rounds {
			if err := r.round(ctx, s); err != nil {
				return fmt.Errorf("%s: %w", sc.name, err)
			}
		}
		r.print()
		if sc.control {
			s.beside[sc.crowd] = p99(r.with)
		}
		for _, why := range r.missed(s.beside[sc.crowd]) {
			missed = true
			fmt.Println("  MISSED:", why)
		}
	}
	if missed && *assert {
		return errors.New("a goal is missed")
	}
	return nil
}

// A server is the server under test.
type server struct {
	cmd                         *exec.Cmd
	beanstalkd, gearman, socket string
	latencies                   bench.Recorder // of the load
	// beside is the p99 of commands while a process runs that does not use the server, by whether
	// it has the lowest priority. Any user of the same machine costs at least that.
	beside map[bool]float64
}

func startServer(dir string) (*server, error) {
	s := &server{socket: filepath.Join(dir, "http.sock"), beside: make(map[bool]float64)}
	for _, addr := range []*string{&s.beanstalkd, &s.gearman} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		*addr = l.Addr().String()
		l.Close()
	}
	_, port, _ := net.SplitHostPort(s.beanstalkd)
	s.cmd = exec.Command(*program, "-l", "127.0.0.1", "-p", port, "--gearman-listen", s.gearman, "--http", "unix:"+s.socket, "--log-level", "warn")
	s.cmd.Stderr = os.Stderr
	if err := bench.NewSpawner().Start(s.cmd, nil); err != nil {
		return nil, err
	}
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if code, _, err := ask(httpClient(s.socket), "GET", "/readyz", ""); err == nil && code == 200 {
			return s, nil
		}
	}
	s.stop()
	return nil, errors.New("the server does not answer")
}

func (s *server) stop() {
	s.cmd.Process.Kill()
	s.cmd.Wait()
}

// fill puts jobs of random priorities into the tube "backlog", and into others if there are more.
// Their ids begin with 1.
func (s *server) fill() error {
	c, err := net.Dial("tcp", s.beanstalkd)
	if err != nil {
		return err
	}
	defer c.Close()
	sent := make(chan error, 1)
	go func() {
		w := bufio.NewWriterSize(c, 1<<16)
		text := strings.Repeat("x", *body)
		for i := range *jobs {
			if tube := i * *tubes / *jobs; i == 0 || tube > (i-1)**tubes / *jobs {
				fmt.Fprintf(w, "use %s\r\n", strings.TrimSuffix(fmt.Sprintf("backlog-%d", tube), "-0"))
			}
			fmt.Fprintf(w, "put %d 0 60 %d\r\n%s\r\n", rand.Uint32N(1<<20), *body, text)
		}
		io.WriteString(w, "list-tubes\r\n")
		sent <- w.Flush()
	}()
	for r := bufio.NewReaderSize(c, 1<<16); ; {
		line, err := r.ReadString('\n')
		switch {
		case err != nil:
			return err
		case strings.HasPrefix(line, "OK"): // the answer to list-tubes
			return <-sent
		case !strings.HasPrefix(line, "INSERTED") && !strings.HasPrefix(line, "USING"):
			return errors.New(line)
		}
	}
}

// A spell is a part of a round: latencies of commands and the server's CPU.
type spell struct {
	bench.Latency
	cpu float64 // processors
}

// A result is the cost of a scene, and what it did.
type result struct {
	scene         scene
	without, with []spell
	rss           int64 // the server's largest RSS at the end of a scene
	told          []told
}

// A told is the report of a scene's process.
type told struct {
	Did     map[string]int
	Longest map[string]time.Duration
	Err     string
}

// begin begins a spell. The returned function ends it.
func (s *server) begin() func() spell {
	cpu, _ := bench.CPU(s.cmd.Process.Pid)
	start := time.Now()
	s.latencies.Take()
	return func() spell {
		now, _ := bench.CPU(s.cmd.Process.Pid)
		return spell{s.latencies.Take(), (now - cpu).Seconds() / time.Since(start).Seconds()}
	}
}

// round measures the load alone, and then with the scene.
func (r *result) round(ctx context.Context, s *server) error {
	end := s.begin()
	time.Sleep(*length)
	r.without = append(r.without, end())
	nice := "0"
	if r.scene.crowd {
		nice = "19"
	}
	cmd := exec.CommandContext(ctx, "nice", "-n", nice, os.Args[0], "-scene", r.scene.name, "-socket", s.socket, "-spell", length.String(), "-jobs", fmt.Sprint(*jobs))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	in := bufio.NewReader(out)
	if _, err := in.ReadString('\n'); err != nil { // the scene is prepared
		return errors.Join(err, cmd.Wait())
	}
	end = s.begin()
	var t told
	err = json.NewDecoder(in).Decode(&t)
	r.with = append(r.with, end())
	rss, _ := bench.RSS(s.cmd.Process.Pid)
	r.rss = max(r.rss, rss)
	if err = errors.Join(err, cmd.Wait()); err == nil && t.Err != "" {
		err = errors.New(t.Err)
	}
	r.told = append(r.told, t)
	time.Sleep(*length / 4)
	return err
}

// least returns the smallest figure of all rounds that is not zero. On a machine with other users,
// the best round tells most about the server.
func least[E any, N float64 | time.Duration](all []E, of func(E) N) (v N) {
	for _, e := range all {
		if f := of(e); f > 0 && (v == 0 || f < v) {
			v = f
		}
	}
	return v
}

func p99(all []spell) float64 { return least(all, func(s spell) float64 { return s.P99 }) }

// quickest returns the longest duration of a kind in the round in which it was shortest.
func (r *result) quickest(what string) time.Duration {
	return least(r.told, func(t told) time.Duration { return t.Longest[what] })
}

func (r *result) print() {
	fmt.Printf("\n%s: commands, µs at p50 p99 p99.9 max; the server's processors; each of the best round\n", r.scene.name)
	for i, all := range [][]spell{r.without, r.with} {
		fmt.Printf("  %-7s %6.0f %6.0f %6.0f %6.0f  %.2f\n", []string{"alone", "beside"}[i], least(all, func(s spell) float64 { return s.P50 }), p99(all),
			least(all, func(s spell) float64 { return s.P999 }), least(all, func(s spell) float64 { return s.Max }), least(all, func(s spell) float64 { return s.cpu }))
	}
	did := map[string]int{}
	for _, t := range r.told {
		for what, n := range t.Did {
			did[what] += n
		}
	}
	for _, what := range slices.Sorted(maps.Keys(did)) {
		fmt.Printf("  %s: %d, the longest of the best round %v\n", what, did[what], r.quickest(what).Round(time.Microsecond))
	}
	fmt.Printf("  resident %d MB\n", r.rss>>20)
}

// missed returns the goals that the scene missed. beside is the p99 of commands beside a
// process that does not use the server.
func (r *result) missed(beside float64) (why []string) {
	alone := max(p99(r.without), beside)
	if more := p99(r.with) - alone; more > felt && !r.scene.control {
		why = append(why, fmt.Sprintf("commands take %.0f µs more at p99 than %.0f µs, want at most %d", more, alone, felt))
	}
	if q := r.quickest(r.scene.name); r.scene.limit > 0 && q > r.scene.limit {
		why = append(why, fmt.Sprintf("%s takes %v, want at most %v", r.scene.name, q, r.scene.limit))
	}
	return why
}
