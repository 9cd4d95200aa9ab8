package http

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
	"polystalk/router/admin"
	"polystalk/shard/core"
	"polystalk/shard/wal"
)

// A heldDisk is a directory with files that become durable on demand: see hold and let.
type heldDisk struct {
	wal.Disk
	mu   sync.Mutex
	held chan struct{} // nil: open
}

type heldFile struct {
	wal.File
	disk *heldDisk
}

// hold makes syncs wait from now on.
func (d *heldDisk) hold() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held = make(chan struct{})
}

// let ends the hold, for waiting and later syncs.
func (d *heldDisk) let() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.held != nil {
		close(d.held)
		d.held = nil
	}
}

func (d *heldDisk) Create(name string) (wal.File, error) {
	f, err := d.Disk.Create(name)
	return &heldFile{f, d}, err
}

func (d *heldDisk) Open(name string) (wal.File, error) {
	f, err := d.Disk.Open(name)
	return &heldFile{f, d}, err
}

func (f *heldFile) Sync() error {
	f.disk.mu.Lock()
	held := f.disk.held
	f.disk.mu.Unlock()
	if held != nil {
		<-held
	}
	return f.File.Sync()
}

// newHeld returns a world with a heldDisk, and n jobs in the tube mail.
func newHeld(t *testing.T, jobs int) (*world, *heldDisk) {
	dir := t.TempDir()
	d := &heldDisk{Disk: wal.Dir(dir)}
	w := newWorld(t, setup{anonymous: access.Operate, dir: dir, disk: d})
	t.Cleanup(d.let)
	w.fill(jobs)
	return w, d
}

// fill puts n jobs into the tube mail.
func (w *world) fill(jobs int) {
	w.t.Helper()
	conn := w.connect(w.srv.Serve)
	go func() {
		out := bufio.NewWriterSize(conn, 1<<16)
		io.WriteString(out, "use mail\r\n")
		for range jobs {
			io.WriteString(out, "put 5 0 100 1\r\nx\r\n")
		}
		out.Flush()
	}()
	in := bufio.NewReaderSize(conn, 1<<16)
	for range jobs + 1 {
		_, err := in.ReadString('\n')
		noErr(w.t, err)
	}
	conn.Close()
}

// shows returns the progress of an operation.
func (w *world) shows(at string) (v wire.Operation) {
	w.t.Helper()
	w.do("GET", at, ask{}).wants(w.t, 200, "").read(w.t, &v)
	return v
}

// until waits until an operation fulfils a condition.
func (w *world) until(at string, within time.Duration, as func(v *wire.Operation) bool) (v wire.Operation) {
	w.t.Helper()
	for start := time.Now(); time.Since(start) < within; time.Sleep(2 * time.Millisecond) {
		if v = w.shows(at); as(&v) {
			return v
		}
	}
	w.t.Fatalf("after %v it is %+v", within, v)
	return v
}

func over(v *wire.Operation) bool { return v.Ended != nil }

// begin begins an operation that does not end soon, and returns its path.
func (w *world) begin(body string) string {
	w.t.Helper()
	a := w.do("POST", operations, ask{json: true, body: body}).wants(w.t, 202, "")
	return "/api/v1/" + a.header.Get("Location")
}

// audited returns the entries of the audit about operations that have ended after their answer.
func (w *world) audited() (list []wire.Entry) {
	w.t.Helper()
	for _, e := range w.audit("") {
		if strings.HasPrefix(e.Detail, "operation ") {
			list = append(list, e)
		}
	}
	return list
}

const buryMail = `{"action":"bury","select":{"tube":"mail"}}`

// TestLongOperationIsFollowed: jobs that it reports as done are durable at any time. Its end is
// audited and logged, with the client.
func TestLongOperationIsFollowed(t *testing.T) {
	const jobs = 10_000
	w, disk := newHeld(t, jobs)
	disk.hold()
	at := w.begin(buryMail)
	v := w.until(at, hangs, func(v *wire.Operation) bool { return v.Unconfirmed >= 4096 })
	if v.State != "running" || v.Done != 0 || v.Matched < v.Unconfirmed || v.Looked < v.Matched || v.ToLook != jobs || v.Matched == jobs || v.Ended != nil {
		t.Errorf("while the disk does nothing: %+v", v)
	}
	time.Sleep(50 * time.Millisecond)
	again := w.shows(at)
	expect(t, again.Matched == v.Matched, "it goes on although nothing becomes durable: %+v, then %+v", v, again)
	e := w.audited()
	expect(t, len(e) == 0, "%+v", e)
	disk.let()
	v = w.until(at, hangs, over)
	expect(t, v.State == "done" && v.Done == jobs && v.Unconfirmed == 0 && v.Problem == nil && v.Looked == jobs && v.Matched == jobs, "%+v", v)
	list := w.audited()
	for start := time.Now(); len(list) == 0 && time.Since(start) < hangs; list = w.audited() {
		time.Sleep(time.Millisecond)
	}
	if len(list) != 1 || list[0].Affected != jobs || list[0].Status != 200 || list[0].Role != "operate" || !strings.Contains(list[0].Detail, `operation 1 done after `) ||
		!strings.Contains(list[0].Detail, `bury, tube "mail"`) || list[0].Path != operations {
		t.Errorf("%+v", list)
	}
	log := w.logged.String()
	expect(t, strings.Contains(log, "affected=10000") && strings.Contains(log, list[0].RequestID), "the log has no line about it: %s", log)
}

// TestCancelEndsSoon, whatever the operation waits for. The same operation again changes the
// remaining jobs.
func TestCancelEndsSoon(t *testing.T) {
	long(t)
	const jobs = 10_000
	w, disk := newHeld(t, jobs)
	disk.hold()
	running := w.begin(buryMail)
	waiting := w.begin(`{"action":"delete","select":{"tube":"mail"}}`)
	w.until(running, hangs, func(v *wire.Operation) bool { return v.Unconfirmed >= 4096 })
	cancel := func(at string) wire.Operation {
		t.Helper()
		w.do("DELETE", at, ask{token: operateToken}).wants(t, 204, "")
		return w.until(at, hangs, over)
	}
	v := cancel(waiting)
	expect(t, v.State == "cancelled" && v.Looked == 0 && v.Problem != nil && strings.Contains(v.Problem.Detail, `by the token "worker"`), "the one that waits: %+v, %+v", v, v.Problem)
	v = cancel(running)
	expect(t, v.State == "cancelled" && v.Done == 0 && v.Unconfirmed >= 4096 && v.Unconfirmed+v.Skipped["unfit"] == v.Matched, "the one that runs: %+v", v)
	w.do("DELETE", running, ask{}).wants(t, 204, "") // again, without an effect
	for start := time.Now(); len(w.audited()) != 2; time.Sleep(time.Millisecond) {
		require(t, time.Since(start) <= hangs, "%d ends are audited", len(w.audited()))
	}
	disk.let()
	rest := w.operation(200, `{"action":"bury","select":{"tube":"mail","states":["ready"]},"as_of":%q}`, v.AsOf)
	expect(t, rest.Done+v.Unconfirmed == jobs && len(rest.Skipped) == 0, "%d were done, and then %+v", v.Unconfirmed, rest)
	metrics := w.do("GET", "/metrics", ask{}).body
	for _, line := range []string{
		`operations_total{action="bury",result="cancelled"} 1`, `operations_total{action="delete",result="cancelled"} 1`, `operations_total{action="bury",result="done"} 1`,
		fmt.Sprintf(`jobs_total{action="bury",result="done"} %d`, rest.Done),
	} {
		expect(t, strings.Contains(metrics, "polystalk_operator_"+line+"\n"), "the metrics have no %s", line)
	}
}

// TestServerThatEndsEndsOperations: running and waiting operations are cancelled within the time of
// the shutdown, and no goroutine is left.
func TestServerThatEndsEndsOperations(t *testing.T) {
	long(t)
	for _, within := range []time.Duration{10 * time.Second, 100 * time.Millisecond} {
		w, disk := newHeld(t, 10_000)
		disk.hold()
		running := w.begin(buryMail)
		w.begin(buryMail)
		w.until(running, hangs, func(v *wire.Operation) bool { return v.Unconfirmed >= 4096 })
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		if within > time.Second {
			time.AfterFunc(300*time.Millisecond, disk.let)
		}
		w.web.Stop(ctx)
		for _, op := range w.web.operations.List() {
			select {
			case <-op.Done():
			case <-time.After(hangs / 2):
				t.Fatalf("within %v: operation %d goes on", within, op.ID)
			}
			state, _, err := op.State()
			if tally := op.Tally(); state != "cancelled" || err == nil || !strings.Contains(err.Error(), "the server stops") || within > time.Second && tally.Unconfirmed != 0 {
				t.Errorf("within %v: operation %d is %s, %v: %+v", within, op.ID, state, err, tally)
			}
		}
		buf := make([]byte, 1<<20)
		left := func() string { return string(buf[:runtime.Stack(buf, true)]) }
		for start := time.Now(); strings.Contains(left(), "polystalk/router/admin."); time.Sleep(10 * time.Millisecond) {
			if time.Since(start) > hangs/2 {
				t.Fatal(left())
			}
		}
		disk.let()
	}
}

// A stumbling action panics.
type stumbling struct{ admin.Verb }

func (stumbling) Do(context.Context, *admin.Operator, *admin.Step) error { panic("stumbled") }

// TestOperationThatPanicsHasFailed; other operations continue.
func TestOperationThatPanicsHasFailed(t *testing.T) {
	w := newWorld(t, setup{anonymous: access.Operate})
	w.fill(3)
	w.web.handle([]route{{pattern: "POST /stumble", need: access.Operate, handler: func(c *call) error {
		b := admin.Bulk{Action: stumbling{admin.Verb{Action: core.Action{Verb: core.VerbKick}}}, AtMost: math.MaxUint64}
		b.Jobs.Tube = "mail"
		return w.web.beginOperation(c, new(wire.NewOperation), b)
	}}})
	a := w.do("POST", "/stumble", ask{}).wants(t, 500, "internal")
	log := w.logged.String()
	expect(t, strings.Contains(log, "stumbled") && strings.Contains(log, a.problem(t).RequestID), "the log does not say where: %s", log)
	v := w.operation(200, buryMail)
	expect(t, v.Done == 3, "%+v", v)
	body := w.do("GET", "/metrics", ask{}).body
	expect(t, strings.Contains(body, `polystalk_operator_operations_total{action="kick",result="internal"} 1`), "it is not counted")
}
