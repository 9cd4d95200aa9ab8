package wire

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/admin"
)

// operatorTubes are the operator's own. The clients of a test watch them, so that they
// neither come nor go.
var operatorTubes = []string{"operator-1", "operator-2", "operator-3"}

// An operator uses a server by HTTP, at random, while a test plays with its clients. It does
// all that can be done with the jobs of its own tubes. Other jobs it reads, and edits to what
// they are: no client may see a difference. (Whether each operation does what it should is the
// simulator's question.)
type operator struct {
	socket string
	api    *daemon.API
	rng    *rand.Rand
	names  []string // tubes, its own and those that it finds

	mu   sync.Mutex // held during a task
	put  uint64
	most uint64   // jobs that it may put; zero: any number
	seen []uint64 // jobs of others that it has seen last
	did  map[string]int
	err  error

	begun      bool
	quit, done chan struct{}
}

// newOperator makes an operator for a server that is started with its flags.
func newOperator(socket string, seed uint64) *operator {
	return &operator{
		socket: socket, api: daemon.NewAPI(socket), rng: rand.New(rand.NewPCG(seed, 10)), did: make(map[string]int),
		names: append([]string{"default", "nosuchtube", "a/b?c", "\x00\xff"}, operatorTubes...), quit: make(chan struct{}), done: make(chan struct{}),
	}
}

func (o *operator) flags() []string { return []string{"--http", "unix:" + o.socket} }

// putFirst puts n jobs at once. The operator puts none afterwards, and deletes none of them.
func (o *operator) putFirst(n uint64) error {
	for o.most = n; o.put < n; {
		if err := o.putOwn(); err != nil {
			return err
		}
	}
	return nil
}

// begin does one task after the other until end is called.
func (o *operator) begin() {
	o.begun = true
	go func() {
		defer close(o.done)
		for o.err == nil {
			select {
			case <-o.quit:
				return
			case <-time.After(time.Duration(o.rng.IntN(300)) * time.Microsecond):
				o.err = o.step()
			}
		}
	}()
}

// end must be called before the server ends. It returns what was not answered as it must be.
func (o *operator) end() error {
	if close(o.quit); o.begun {
		<-o.done
	}
	o.api.CloseIdleConnections()
	return o.err
}

// still lets the operator do nothing until goOn is called, and counts its jobs as stats does.
func (o *operator) still() (own map[string]uint64, goOn func()) {
	o.mu.Lock()
	own = map[string]uint64{"total-jobs": o.put}
	for _, name := range operatorTubes {
		var tube admin.Tube
		if _, err := o.ask("GET", tubePath(name), nil, &tube, http.StatusNotFound); err != nil && o.err == nil {
			o.err = err
		}
		for key, n := range map[string]uint64{"ready": tube.Jobs.Ready, "delayed": tube.Jobs.Delayed, "buried": tube.Jobs.Buried, "urgent": tube.Jobs.Urgent} {
			own["current-jobs-"+key] += n
		}
	}
	return own, o.mu.Unlock
}

// step does one task.
func (o *operator) step() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	tasks := []struct {
		name string
		do   func() error
	}{
		{"look", o.look}, {"look", o.look}, {"list", o.list}, {"list", o.list}, {"look at a job", o.lookAt},
		{"edit to the same", o.editSame}, {"edit to the same", o.editSame}, {"put", o.putOwn},
		{"edit", o.onJob("PATCH", "", map[string]any{"pri": 1000 * o.rng.IntN(3), "body": strings.Repeat("edited ", o.rng.IntN(50))})},
		{"kick", o.onJob("POST", "/kick", nil)}, {"bury", o.onJob("POST", "/bury", nil)}, {"pause", o.pause},
		{"bulk", o.bulk(map[string]any{"action": "set", "set": map[string]any{"pri": 7}})},
		{"bulk", o.bulk(map[string]any{"action": o.pick("kick", "bury"), "dry_run": o.rng.IntN(3) == 0})},
		{"delete", o.onJob("DELETE", "", nil)}, {"bulk", o.bulk(map[string]any{"action": "delete"})},
		{"move", o.onJob("POST", "/move", map[string]any{"to": o.pick(operatorTubes...)})}, {"copy", o.onJob("POST", "/copy", map[string]any{"to": o.pick(operatorTubes...)})},
		{"move many", o.bulk(map[string]any{"action": "move", "to": o.pick(operatorTubes...)})}, {"flush", o.flush},
	}
	if o.most > 0 {
		tasks = tasks[:14] // they delete no job, and make none
	}
	task := tasks[o.rng.IntN(len(tasks))]
	if err := task.do(); err != nil {
		return fmt.Errorf("operator: %s: %w", task.name, err)
	}
	o.did[task.name]++
	return nil
}

// ask sends a request. A status other than 2xx is an error unless may lists it.
func (o *operator) ask(method, path string, in, out any, may ...int) (status int, err error) {
	status, _, err = o.api.Do(method, path, "", in, out, may...)
	return status, err
}

func (o *operator) pick(list ...string) string { return list[o.rng.IntN(len(list))] }

func (o *operator) look() error {
	_, err := o.ask("GET", o.pick("/livez", "/readyz", "/metrics", "/metrics/tubes", "/api/v1/server", "/api/v1/journal", "/api/v1/tubes", "/api/v1/operations"), nil, nil)
	return err
}

func tubePath(name string) string { return "/api/v1/tubes/" + url.PathEscape(name) }

// list reads a list of jobs, page by page.
func (o *operator) list() error {
	q := url.Values{"limit": {o.pick("1", "3", "100", "1000")}, "body": {o.pick("none", "preview", "full")}}
	path := o.pick("/api/v1/jobs", tubePath(o.pick(o.names...))+"/jobs", tubePath(o.pick(o.names...))+"/jobs")
	switch {
	case path != "/api/v1/jobs" && o.rng.IntN(2) == 0:
		q.Set("order", o.pick("next", "oldest", "newest"))
		q.Set("state", o.pick("ready", "delayed", "buried"))
	case path != "/api/v1/jobs":
		q.Set("order", "scan")
		fallthrough
	default:
		if o.rng.IntN(2) == 0 {
			q.Set("contains", o.pick("a", "b", "xyz"))
		}
	}
	shown := make(map[uint64]bool)
	for range 20 {
		var page admin.Jobs
		code, err := o.ask("GET", path+"?"+q.Encode(), nil, &page, http.StatusNotFound, http.StatusTooManyRequests)
		if err != nil || code != http.StatusOK {
			return err
		}
		for i := range page.Jobs {
			j := &page.Jobs[i]
			if shown[j.ID] && q.Get("state") == "" {
				return fmt.Errorf("%s?%s shows job %d twice", path, q.Encode(), j.ID)
			}
			shown[j.ID] = true
			if !strings.HasPrefix(j.Tube, "operator-") {
				o.seen = append(o.seen, j.ID)
			}
			if name, err := url.PathUnescape(j.Path); err == nil && name != "" && !slices.Contains(o.names, name) {
				o.names = append(o.names, name)
			}
		}
		o.seen = o.seen[max(0, len(o.seen)-50):]
		if page.Next == "" {
			break
		}
		q.Set("after", page.Next)
	}
	return nil
}

// other is the path of a job of another client, or of one that is gone.
func (o *operator) other() string {
	if len(o.seen) == 0 {
		return "/api/v1/jobs/1"
	}
	return fmt.Sprintf("/api/v1/jobs/%d", o.seen[o.rng.IntN(len(o.seen))])
}

func (o *operator) lookAt() error {
	_, err := o.ask("GET", o.other()+o.pick("", "?body=full", "/body"), nil, nil, http.StatusNotFound)
	return err
}

// editSame edits a job of another client to what it is, unless the job has changed since.
func (o *operator) editSame() error {
	var j admin.Job
	path := o.other()
	status, header, err := o.api.Do("GET", path+"?body=full", "", nil, &j, http.StatusNotFound)
	if err != nil || status != http.StatusOK {
		return err
	}
	edit := map[string]any{"pri": j.Pri}
	switch o.rng.IntN(3) {
	case 0:
		edit["ttr_seconds"] = j.TTRSeconds
	case 1:
		switch {
		case j.Truncated:
		case j.Text != nil:
			edit["body"] = *j.Text
		case j.Base64 != nil:
			edit["body_base64"] = *j.Base64
		}
	}
	status, _, err = o.api.Do("PATCH", path+"?force=true", header.Get("ETag"), edit, nil, http.StatusNotFound, http.StatusPreconditionFailed, http.StatusConflict)
	if status == http.StatusNoContent {
		o.did["edited to the same"]++
	}
	return err
}

// putOwn puts a job.
func (o *operator) putOwn() error {
	if o.most > 0 && o.put >= o.most {
		return nil
	}
	in := map[string]any{"pri": 1000 * o.rng.IntN(3), "ttr_seconds": 1000, "body": strings.Repeat("operated ", 1+o.rng.IntN(20))}
	if o.rng.IntN(3) == 0 {
		in["delay_seconds"] = 5000
	}
	_, err := o.ask("POST", tubePath(o.pick(operatorTubes...))+"/jobs", in, nil)
	o.put++
	return err
}

// refused are the replies to what does not fit the state of a job or a tube.
var refused = []int{http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity}

// onJob does something to a job of the operator.
func (o *operator) onJob(method, verb string, in any) func() error {
	return func() error {
		var page admin.Jobs
		if _, err := o.ask("GET", tubePath(o.pick(operatorTubes...))+"/jobs?order=scan&limit=1000", nil, &page, http.StatusNotFound); err != nil || len(page.Jobs) == 0 {
			return err
		}
		id := page.Jobs[o.rng.IntN(len(page.Jobs))].ID
		status, err := o.ask(method, fmt.Sprintf("/api/v1/jobs/%d%s", id, verb), in, nil, refused...)
		if verb == "/copy" && status/100 == 2 {
			o.put++ // stats counts a copy as a put
		}
		return err
	}
}

// pause pauses a tube of the operator, or ends its pause.
func (o *operator) pause() error {
	method, in := "DELETE", any(nil)
	if o.rng.IntN(2) == 0 {
		method, in = "PUT", map[string]any{"seconds": 1000}
	}
	_, err := o.ask(method, tubePath(o.pick(operatorTubes...))+"/pause", in, nil)
	return err
}

// bulk begins an operation on all jobs of a tube of the operator, and waits for its end.
func (o *operator) bulk(in map[string]any) func() error {
	return func() error {
		in["select"] = map[string]any{"tube": o.pick(operatorTubes...)}
		var op admin.Operation
		status, err := o.ask("POST", "/api/v1/operations", in, &op, refused...)
		if err != nil || status/100 != 2 {
			return err
		}
		for end := time.Now().Add(10 * time.Second); op.State != "done"; time.Sleep(time.Millisecond) {
			if time.Now().After(end) || op.Problem != nil {
				return fmt.Errorf("%v: %+v", in, op)
			}
			if _, err := o.ask("GET", fmt.Sprintf("/api/v1/operations/%d", op.ID), nil, &op); err != nil {
				return err
			}
		}
		return nil
	}
}

// flush deletes all jobs of a tube of the operator that are in a state.
func (o *operator) flush() error {
	_, err := o.ask("DELETE", tubePath(o.pick(operatorTubes...))+"/jobs?state="+o.pick("ready", "delayed", "buried"), nil, nil)
	return err
}
