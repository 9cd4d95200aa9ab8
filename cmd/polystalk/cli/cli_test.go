package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"polystalk/cmd/polystalk/client"
	"polystalk/codec/admin"
)

// A lost is a writer that fails.
type lost struct{ err error }

func (w lost) Write([]byte) (int, error) { return 0, w.err }

func TestCheckIsUnknownWhenItsLineCannotBeWritten(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jobs":{"ready":1},"connections":{}}`)
	}))
	defer server.Close()
	for _, err := range []error{syscall.ENOSPC, syscall.EPIPE, syscall.EBADF} {
		for _, args := range [][]string{{"check"}, {"check", "--ready", "0"}, {"check", "--nosuch"}} {
			a := &App{Out: lost{err}, Err: io.Discard, Getenv: func(string) string { return "" }}
			if code := Run(t.Context(), a, append(args, "--server", server.URL)); code != 3 {
				t.Errorf("%q: exit code %d with %v", args, code, err)
			}
		}
	}
}

// TestTimesAreSecondsWithoutAUnit, in every flag.
func TestTimesAreSecondsWithoutAUnit(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"2": 2 * time.Second, "0.5": time.Second / 2, "90s": 90 * time.Second, "5m": 5 * time.Minute, "7d": 7 * 24 * time.Hour, "300ms": 300 * time.Millisecond,
		"4294967295": math.MaxUint32 * time.Second,
	} {
		if got, err := readTime("--timeout", text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "d", "soon", "NaN", "inf", "1e300", "2 s"} {
		if got, err := readTime("--timeout", text); err == nil {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
	for _, text := range []string{"0.5", "1500ms", "-1", "4294967296"} {
		if got, err := readSeconds("--ttr", text); err == nil {
			t.Errorf("%q is taken for %v s", text, got)
		}
	}
}

// TestExportedSizeMatchesTheBody, even if the body was edited after the list was made.
func TestExportedSizeMatchesTheBody(t *testing.T) {
	var out strings.Builder
	s := &sink{w: bufio.NewWriter(&out), body: func(_ uint64, w io.Writer) error {
		_, err := io.WriteString(w, "edited")
		return err
	}}
	must(t, s.listed([]byte(`{"id":"1","tube":"a","state":"ready","body_bytes":70000,"body":"pre","body_truncated":true}`)))
	if err := s.w.Flush(); err != nil {
		t.Fatal(err)
	}
	if j, err := admin.ParseLine([]byte(out.String()), 0); err != nil || string(j.Body) != "edited" {
		t.Errorf("%s is read as %q, %v", out.String(), j.Body, err)
	}
}

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestAwaitSocket waits for the socket of a server that restarts, even if the old socket still
// exists; but not if the directory belongs to no cluster.
func TestAwaitSocket(t *testing.T) {
	for _, left := range []bool{false, true} {
		dir := t.TempDir()
		path := filepath.Join(dir, socketName)
		listen := func() *net.UnixListener {
			t.Helper()
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
			must(t, err)
			return l
		}
		if left {
			l := listen()
			l.SetUnlinkOnClose(false)
			l.Close()
		}
		must(t, os.WriteFile(filepath.Join(dir, stateName), nil, 0o600))
		done := make(chan struct{})
		go func() {
			defer close(done)
			awaitSocket(t.Context(), dir)
		}()
		select {
		case <-done:
			t.Error("it did not wait for a socket")
		default:
		}
		os.Remove(path)
		l := listen()
		<-done
		l.Close()
	}
	awaitSocket(t.Context(), t.TempDir())
}

// A leaders is a server that reports one leader after the other, and then the last one forever.
type leaders struct {
	client.Server
	names []string // empty: there is no leader
}

func (s *leaders) Ask(_ context.Context, r client.Request) (client.Answer, error) {
	if r.Method == "POST" {
		return client.Answer{}, nil
	}
	name := s.names[0]
	if len(s.names) > 1 {
		s.names = s.names[1:]
	}
	if name == "" {
		return client.Answer{Document: []byte(`{"leader":null,"members":[]}`)}, nil
	}
	return client.Answer{Document: fmt.Appendf(nil, `{"leader":%q,"members":[]}`, name)}, nil
}

func TestTransferEndsWhenTheNamedServerLeads(t *testing.T) {
	for name, tt := range map[string]struct {
		to      string
		leaders []string
		shows   string
		fault   string
	}{
		"at once":       {"b", []string{"b"}, "b", ""},
		"later":         {"b", []string{"a", "", "", "b"}, "b", ""},
		"none named":    {"", []string{"", "c"}, "c", ""},
		"nobody":        {"", []string{""}, "", "the new one is not known yet"},
		"nobody, named": {"b", []string{"a", ""}, "", "the new one is not known yet"},
		"another":       {"b", []string{"", "a"}, "", "a leads, not b"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			a := &App{}
			a.printer = client.Printer{Out: &out, Format: "json"}
			r := &run{App: a, ctx: t.Context(), server: &leaders{names: tt.leaders}}
			if tt.to != "" {
				r.args = []string{tt.to}
			}
			err := clusterTransfer(r)
			if tt.fault == "" && (err != nil || !strings.Contains(out.String(), tt.shows)) {
				t.Errorf("%s: %v, and %q is shown, want %s to lead", name, err, &out, tt.shows)
			}
			if tt.fault != "" && (client.ExitCode(err) != client.NotDone || !strings.Contains(err.Error(), tt.fault) || out.Len() > 0) {
				t.Errorf("%s: %v, and %q is shown, want %q", name, err, &out, tt.fault)
			}
		})
	}
}

// An accepting server accepts bodies of any size up to 100 kB.
type accepting struct {
	client.Server
	bodies []string
	put    chan int // gets the number of jobs of each batch; nil: the test does not count them
}

func (s *accepting) Ask(context.Context, client.Request) (client.Answer, error) {
	return client.Answer{Document: []byte(`{"max_job_size_bytes":100000}`)}, nil
}

func (s *accepting) PutMany(_ context.Context, jobs []admin.LineJob) (results []client.PutResult, err error) {
	for _, j := range jobs {
		s.bodies = append(s.bodies, string(j.Body))
		results = append(results, client.PutResult{ID: uint64(len(s.bodies))})
	}
	if s.put != nil {
		s.put <- len(jobs)
	}
	return results, nil
}

// TestLinesWithoutEndAreNotKept in memory, and the lines after them are put.
func TestLinesWithoutEndAreNotKept(t *testing.T) {
	var stderr strings.Builder
	s := &accepting{}
	a := &App{Err: &stderr, out: bufio.NewWriter(io.Discard)}
	fits := strings.Repeat("y", 100_000)
	in := io.MultiReader(strings.NewReader("a\r\n\n"+fits+"\n"), io.LimitReader(endless{}, 64<<20), strings.NewReader("\n"+fits+"y\nlast"))
	p := putting{run: &run{App: a, ctx: t.Context(), server: s}, progress: a.progress("put"), longest: func(body int64) int64 { return body }}
	p.parse = func(text []byte) (admin.LineJob, bool, error) {
		return admin.LineJob{Body: []byte(string(text))}, false, nil
	}
	p.done = func() error { return nil }
	must(t, p.start(in, 0))
	err := p.all()
	if got := []string{"a\r", "", fits, "last"}; client.ExitCode(err) != client.NotDone || !slices.Equal(s.bodies, got) || cap(p.long) > 2<<20 {
		t.Errorf("%v: %d bodies; a line takes %d bytes", err, len(s.bodies), cap(p.long))
	}
	if want := "polystalk: line 4 was not put: the line has more than 100000 bytes"; !strings.HasPrefix(stderr.String(), want) || !strings.Contains(stderr.String(), "line 5 was not put") {
		t.Errorf("%q", stderr.String())
	}
}

// An endless reader reads x.
type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

// A slowList lists ready jobs on two pages, the second one long after the first.
type slowList struct {
	client.Server
	total int
}

func (s *slowList) Ask(context.Context, client.Request) (client.Answer, error) {
	return client.Answer{Document: fmt.Appendf(nil, `{"jobs_total":%d}`, s.total)}, nil
}

func (s *slowList) List(_ context.Context, r client.Request, page func([]byte) error) error {
	began := time.Now()
	for id := s.total; id > 0 && r.Query.Get("state") == "ready"; id-- {
		age := time.Since(began).Seconds()
		if err := page(fmt.Appendf(nil, `{"jobs":[{"id":"%d","age_seconds":%f,"state_seconds":%f}]}`, id, age, age)); err != nil {
			return err
		}
		time.Sleep(3 * time.Second)
	}
	return nil
}

// TestTailReadsAllPagesOfABusyTube, although the jobs of later pages are older when they come.
func TestTailReadsAllPagesOfABusyTube(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notes bytes.Buffer
		s := &slowList{}
		a := &App{Err: &notes, out: bufio.NewWriter(io.Discard)}
		l := &tail{run: &run{App: a, ctx: t.Context(), server: s}, tube: "mail", began: time.Now()}
		for first := range 2 {
			rows, err := l.look(first == 0)
			if err != nil || len(rows) != s.total || notes.Len() > 0 {
				t.Errorf("%d rows of %d, %v; %q", len(rows), s.total, err, &notes)
			}
			time.Sleep(tailEach)
			s.total = 3
		}
	})
}

// TestAnInterruptEndsLinesOfAQuietPipe, and says how to continue.
func TestAnInterruptEndsLinesOfAQuietPipe(t *testing.T) {
	in, quiet, err := os.Pipe()
	must(t, err)
	defer quiet.Close()
	_, err = io.WriteString(quiet, "a\nb\nc")
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	s := &accepting{put: make(chan int, 2)}
	a := &App{In: in, Err: io.Discard, out: bufio.NewWriter(io.Discard), ended: ctx.Done()}
	file, err := a.open("-", "")
	must(t, err)
	p := putting{run: &run{App: a, ctx: ctx, server: s}, progress: a.progress("put"), longest: func(body int64) int64 { return body }}
	p.parse = func(text []byte) (admin.LineJob, bool, error) { return admin.LineJob{Body: text}, false, nil }
	must(t, p.start(file, 0))
	go func() {
		for n := 0; n < 2; n += <-s.put {
		}
		stop()
	}()
	if err := p.all(); client.ExitCode(err) != client.NotDone || err.Error() != "interrupted: 2 jobs put; continue with --skip 2" {
		t.Error(err)
	}
}

// TestSlotsNoteAnOutageOnce: when the first one fails, and when the last one recovers.
func TestSlotsNoteAnOutageOnce(t *testing.T) {
	var notes bytes.Buffer
	w := &worker{run: &run{App: &App{Err: &notes, out: bufio.NewWriter(io.Discard)}}, target: client.Target{Name: "S"}}
	gone := errors.New("gone")
	for _, step := range []struct {
		cut bool
		err error
	}{{false, nil}, {false, gone}, {false, nil}, {false, gone}, {true, gone}, {true, nil}, {false, nil}, {true, nil}} {
		w.reached(t.Context(), step.cut, step.err)
	}
	if want := "polystalk: gone; it is asked again until it answers\npolystalk: S answers again\n"; notes.String() != want {
		t.Errorf("%q", notes.String())
	}
}

// TestALateCommandIsNotStarted: its job is touched while it waits, until the reservation has ended.
func TestALateCommandIsNotStarted(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	touches := make(chan int, 100)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		for in := bufio.NewScanner(conn); in.Scan(); {
			reply := map[string]string{"list": "USING default", "watc": "WATCHING 1", "igno": "WATCHING 1", "touc": "NOT_FOUND"}[in.Text()[:4]]
			if reply == "NOT_FOUND" {
				touches <- 1
			}
			if _, err := io.WriteString(conn, reply+"\r\n"); err != nil {
				return
			}
		}
	}()
	c, err := client.DialWorker(t.Context(), client.Target{Name: "S", Network: "tcp", Address: l.Addr().String()}, client.Options{Timeout: time.Minute}, []string{"mail"})
	must(t, err)
	defer c.Close()
	w := &worker{run: &run{App: &App{Out: io.Discard, Err: io.Discard}}, command: []string{"false"}, starts: make(chan func())}
	go func() {
		<-touches
		<-touches // the reply to the first one was read
		(<-w.starts)()
	}()
	if code, err := w.execute(c, &client.Job{ID: 1}); code != -1 || err != nil {
		t.Errorf("exit code %d, %v", code, err)
	}
}
