package forward

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	wire "polystalk/codec/admin"
)

// A fake leader gets requests.
type fake struct {
	t     *testing.T
	asked chan *asked
}

type asked struct {
	node uint64
	req  *http.Request
	conn net.Conn
}

// answer answers a request.
func (a *asked) answer(text string) {
	res := &http.Response{StatusCode: 200, ProtoMajor: 1, ProtoMinor: 1, Body: io.NopCloser(strings.NewReader(text)), ContentLength: int64(len(text))}
	res.Write(a.conn)
}

// open makes a connection, and reads requests at its other end.
func (f *fake) open(_ context.Context, node uint64) (net.Conn, error) {
	if node == 9 {
		return nil, errors.New("nobody listens there")
	}
	here, there := net.Pipe()
	f.t.Cleanup(func() { here.Close(); there.Close() })
	go func() {
		in := bufio.NewReader(there)
		for {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			io.Copy(io.Discard, req.Body)
			f.asked <- &asked{node, req, there}
		}
	}()
	return here, nil
}

func newRelay(t *testing.T) (*Relay, *fake) {
	f := &fake{t, make(chan *asked, 2*RelayMax)}
	r := NewRelay(RelayOptions{Self: 1, Open: f.open})
	t.Cleanup(r.Close)
	return r, f
}

// next waits for the next request.
func (f *fake) next() *asked {
	f.t.Helper()
	select {
	case a := <-f.asked:
		return a
	case <-time.After(ample):
		f.t.Fatal("no request arrived")
		return nil
	}
}

// A told holds the result of Ask.
type told struct {
	text string
	by   string
	err  error
}

// ask calls Ask on another goroutine.
func ask(ctx context.Context, r *Relay, method, body string) <-chan told {
	done := make(chan told, 1)
	req, err := http.NewRequestWithContext(ctx, method, "/api/v1/tubes", strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	if body == "" {
		req.Body, req.GetBody = nil, nil
	}
	req.Header.Set("Idempotency-Key", "one")
	go func() {
		res, by, err := r.Ask(req)
		if res == nil {
			done <- told{"", by, err}
			return
		}
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		done <- told{string(b), by, err}
	}()
	return done
}

// wait waits for the result of an ask.
func wait(t *testing.T, done <-chan told) told {
	t.Helper()
	select {
	case v := <-done:
		return v
	case <-time.After(ample):
		t.Fatal("the request does not end")
		return told{}
	}
}

// wantProblem checks the kind and the text of a problem.
func wantProblem(t *testing.T, v told, kind *wire.Kind, says string) {
	t.Helper()
	p, ok := errors.AsType[*wire.Problem](v.err)
	if !ok || p.Type != wire.ProblemPath+kind.Slug || !strings.Contains(p.Detail, says) || p.Remedy == "" {
		t.Errorf("%q %v, want the problem %s that says %q", v.text, v.err, kind.Slug, says)
	}
}

func TestNobodyIsAskedWithoutALeader(t *testing.T) {
	r, f := newRelay(t)
	none := func() {
		t.Helper()
		if v := wait(t, ask(t.Context(), r, "GET", "")); v.err != nil || v.text != "" || len(f.asked) > 0 {
			t.Errorf("%+v", v)
		}
	}
	none()
	r.SetLeader(2, "n2")
	r.SetLeader(0, "")
	none()
	r.SetLeader(2, "n2")
	r.SetLeader(1, "n1") // itself
	none()
	r.SetLeader(9, "n9")
	wantProblem(t, wait(t, ask(t.Context(), r, "POST", "x")), wire.Following, "server n9 leads, and cannot be reached from here: nobody listens there")
	r.Close()
	r.SetLeader(2, "n2")
	none()
}

// A request is never repeated, not even with an Idempotency-Key, with which net/http would.
func TestNothingIsAskedTwice(t *testing.T) {
	r, f := newRelay(t)
	r.SetLeader(2, "n2")
	for _, body := range []string{"", "something"} {
		done := ask(t.Context(), r, "POST", body)
		f.next().answer("yes")
		if v := wait(t, done); v.text != "yes" || v.by != "n2" || v.err != nil {
			t.Fatalf("%+v", v)
		}
		done = ask(t.Context(), r, "POST", body)
		f.next().conn.Close()
		wantProblem(t, wait(t, done), wire.Uncertain, "forwarded to server n2, which led, and no answer came")
		if len(f.asked) > 0 {
			t.Error("the request was repeated")
		}
	}
	done := ask(t.Context(), r, "GET", "")
	f.next().conn.Close()
	wantProblem(t, wait(t, done), wire.Following, "server n2, which led, has not answered")
}

// New requests go to the new leader, and the previous leader has some time to answer. If the same
// server leads again, its requests continue.
func TestAnotherLeads(t *testing.T) {
	r, f := newRelay(t)
	r.within = ample
	r.SetLeader(2, "n2")
	before := ask(t.Context(), r, "POST", "transfer")
	a := f.next()
	r.SetLeader(0, "")
	r.SetLeader(3, "n3")
	after := ask(t.Context(), r, "POST", "put")
	b := f.next()
	if b.node != 3 {
		t.Errorf("%d was asked", b.node)
	}
	b.answer("put")
	a.answer("it leads")
	if v := wait(t, after); v.text != "put" || v.by != "n3" {
		t.Errorf("%+v", v)
	}
	if v := wait(t, before); v.text != "it leads" || v.by != "n2" {
		t.Errorf("%+v", v)
	}
	r.within = 0
	same := ask(t.Context(), r, "GET", "")
	c := f.next()
	r.SetLeader(0, "")
	r.SetLeader(3, "n3") // the same again
	c.answer("here")
	if v := wait(t, same); v.text != "here" {
		t.Errorf("%+v", v)
	}
	change, look := ask(t.Context(), r, "DELETE", ""), ask(t.Context(), r, "GET", "")
	f.next()
	f.next()
	r.SetLeader(2, "n2")
	wantProblem(t, wait(t, change), wire.Uncertain, "n3, which led, and no answer came: another server leads")
	wantProblem(t, wait(t, look), wire.Following, "n3, which led, has not answered: another server leads")
	if len(f.asked) > 0 {
		t.Error("a request was repeated")
	}
}

func TestSeatsAreBoundedAndGivenBack(t *testing.T) {
	r, f := newRelay(t)
	r.SetLeader(2, "n2")
	ctx, leave := context.WithCancel(t.Context())
	var all []<-chan told
	for range RelayMax {
		all = append(all, ask(ctx, r, "GET", ""))
	}
	for range RelayMax {
		f.next()
	}
	wantProblem(t, wait(t, ask(t.Context(), r, "GET", "")), wire.Busy, "server n2")
	leave()
	for _, one := range all {
		wantProblem(t, wait(t, one), wire.Following, "the request was canceled")
	}
	if len(r.seats) > 0 {
		t.Errorf("%d seats are taken", len(r.seats))
	}
}

// Streams leave seats for other requests.
func TestStreamsLeaveSeats(t *testing.T) {
	r, f := newRelay(t)
	r.SetLeader(2, "n2")
	stream := func() (*http.Response, error) {
		req, err := http.NewRequestWithContext(t.Context(), "GET", "/api/v1/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, _, err := r.AskStream(req)
		return res, err
	}
	var open []*http.Response
	for range RelayStreamsMax {
		go func() {
			io.WriteString((<-f.asked).conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
		}()
		res, err := stream()
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, res)
	}
	_, err := stream()
	wantProblem(t, told{err: err}, wire.Busy, "from the leader pass through this server")
	change := ask(t.Context(), r, "POST", "x")
	f.next().answer("done")
	if v := wait(t, change); v.text != "done" {
		t.Errorf("%+v", v)
	}
	for _, res := range open {
		res.Body.Close()
		res.Body.Close() // returns only one seat
	}
	r.SetLeader(9, "n9")
	_, err = stream()
	wantProblem(t, told{err: err}, wire.Following, "cannot be reached")
	if len(r.streams) > 0 || len(r.seats) > 0 {
		t.Errorf("%d seats of streams and %d in all are taken", len(r.streams), len(r.seats))
	}
}

// An abandoned request ends the attempt to connect.
func TestAttemptEndsWithItsRequest(t *testing.T) {
	r := NewRelay(RelayOptions{Self: 1, Open: func(ctx context.Context, _ uint64) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	t.Cleanup(r.Close)
	r.SetLeader(2, "n2")
	ctx, leave := context.WithCancel(t.Context())
	done := ask(ctx, r, "POST", "x")
	await(t, "it is under way", func() bool { return len(r.seats) == 1 })
	leave()
	wantProblem(t, wait(t, done), wire.Following, "cannot be reached from here: the request was canceled")
	if len(r.seats) > 0 {
		t.Error("its seat is taken")
	}
}

// Deadlines and Close end requests before and within an answer.
func TestDeadlinesAndTheEndHold(t *testing.T) {
	r, f := newRelay(t)
	r.SetLeader(2, "n2")
	ctx, cancel := context.WithCancelCause(t.Context())
	late := ask(ctx, r, "POST", "x")
	f.next()
	cancel(context.DeadlineExceeded)
	wantProblem(t, wait(t, late), wire.Uncertain, "it did not answer in time")

	whole := ask(t.Context(), r, "GET", "")
	a := f.next()
	io.WriteString(a.conn, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
	open := ask(t.Context(), r, "POST", "x")
	f.next()
	r.Close()
	wantProblem(t, wait(t, open), wire.Uncertain, "this server ends")
	// How much of the answer has come by then is a matter of timing.
	if v := wait(t, whole); v.err == nil || !strings.HasPrefix("half", v.text) {
		t.Errorf("%+v", v)
	}
}
