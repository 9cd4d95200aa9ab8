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
// they are: no client may see a difference.
type operator struct {
	socket string
	api    *daemon.API
	rng    *rand.Rand
	names  []string // other tubes, besides those that it finds

	mu   sync.Mutex // held during a task
	own  map[uint64]*ownJob
	put  uint64
	most uint64   // jobs that it may put; zero: any number
	seen []uint64 // jobs of others that it has seen last
	did  map[string]int
	err  error

	begun      bool
	quit, done chan struct{}
}

// An ownJob is a job of the operator.
type ownJob struct {
	tube, state string
	pri         uint32
}

// newOperator makes an operator for a server that is started with its flags.
func newOperator(socket string, seed uint64) *operator {
	return &operator{
		socket: socket, api: daemon.NewAPI(socket), rng: rand.New(rand.NewPCG(seed, 10)), own: make(map[uint64]*ownJob), did: make(map[string]int),
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
	for _, j := range o.own {
		own["current-jobs-"+j.state]++
		if j.state == "ready" && j.pri < 1024 {
			own["current-jobs-urgent"]++
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
		{"edit to the same", o.editSame}, {"edit to the same", o.editSame}, {"put", o.putOwn}, {"edit", o.editOwn},
		{"kick", o.act("kick")}, {"bury", o.act("bury")}, {"delete", o.act("")}, {"bulk", o.bulk}, {"pause", o.pause},
		{"move", o.transfer("move")}, {"copy", o.transfer("copy")}, {"move many", o.moveMany}, {"flush", o.flush},
	}
	if o.most > 0 {
		tasks = tasks[:14]
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

func jobPath(id uint64) string { return fmt.Sprintf("/api/v1/jobs/%d", id) }

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
			if o.own[j.ID] == nil {
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

// other is a job of another client, or was one.
func (o *operator) other() uint64 {
	if len(o.seen) == 0 {
		return 1
	}
	return o.seen[o.rng.IntN(len(o.seen))]
}

func (o *operator) lookAt() error {
	_, err := o.ask("GET", jobPath(o.other())+o.pick("", "?body=full", "/body"), nil, nil, http.StatusNotFound)
	return err
}

// editSame edits a job of another client to what it is, unless the job has changed since.
func (o *operator) editSame() error {
	var j admin.Job
	path := jobPath(o.other())
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

// putOwn puts a job, unless there are many.
func (o *operator) putOwn() error {
	if o.most == 0 && len(o.own) >= 40 || o.most > 0 && o.put >= o.most {
		return nil
	}
	j := &ownJob{tube: o.pick(operatorTubes...), state: "ready", pri: uint32(o.rng.IntN(3) * 1000)}
	in := map[string]any{"pri": j.pri, "ttr_seconds": 1000, "body": strings.Repeat("operated ", 1+o.rng.IntN(20))}
	if o.rng.IntN(3) == 0 {
		j.state = "delayed"
		in["delay_seconds"] = 5000
	}
	var put admin.Put
	if _, err := o.ask("POST", tubePath(j.tube)+"/jobs", in, &put); err != nil {
		return err
	}
	o.put++
	if o.own[put.ID] != nil {
		return fmt.Errorf("job %d is put twice", put.ID)
	}
	o.own[put.ID] = j
	return nil
}

// mine picks a job of the operator; nil: there is none.
func (o *operator) mine() (id uint64, j *ownJob) {
	at := o.rng.Uint64()
	for k := range o.own {
		if j == nil || k^at < id^at {
			id, j = k, o.own[k]
		}
	}
	return id, j
}

// act does kick or bury to a job of the operator, or deletes it.
func (o *operator) act(verb string) func() error {
	return func() error {
		id, j := o.mine()
		if j == nil || verb == "" && o.most > 0 {
			return nil
		}
		method, path, fits, to := "POST", jobPath(id)+"/"+verb, j.state != "ready", "ready"
		switch verb {
		case "":
			method, path, fits = "DELETE", jobPath(id), true
		case "bury":
			fits, to = j.state != "buried", "buried"
		}
		status, err := o.ask(method, path, nil, nil, http.StatusConflict)
		switch {
		case err != nil:
			return err
		case fits != (status != http.StatusConflict):
			return fmt.Errorf("%s of job %d, which is %s: %d", verb, id, j.state, status)
		case verb == "":
			delete(o.own, id)
		case fits:
			j.state = to
		}
		return nil
	}
}

func (o *operator) editOwn() error {
	id, j := o.mine()
	if j == nil {
		return nil
	}
	j.pri = uint32(o.rng.IntN(3) * 1000)
	_, err := o.ask("PATCH", jobPath(id), map[string]any{"pri": j.pri, "body": strings.Repeat("edited ", o.rng.IntN(50))}, nil)
	return err
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

// bulk does the same to all jobs of a tube of the operator.
func (o *operator) bulk() error {
	tube, action := o.pick(operatorTubes...), o.pick("delete", "kick", "bury", "set")
	if action == "delete" && o.most > 0 {
		action = "kick"
	}
	in := map[string]any{"action": action, "select": map[string]any{"tube": tube}, "dry_run": o.rng.IntN(3) == 0}
	if action == "set" {
		in["set"] = map[string]any{"pri": 7}
	}
	op, err := o.operate(in)
	if err != nil {
		return err
	}
	matched, done := uint64(0), uint64(0)
	for id, j := range o.own {
		if j.tube != tube {
			continue
		}
		matched++
		if op.DryRun || action == "kick" && j.state == "ready" || action == "bury" && j.state == "buried" {
			continue
		}
		done++
		switch action {
		case "delete":
			delete(o.own, id)
		case "kick":
			j.state = "ready"
		case "bury":
			j.state = "buried"
		case "set":
			j.pri = 7
		}
	}
	if op.Matched != matched || op.Done != done {
		return fmt.Errorf("%s in %s: %+v, want %d and %d done", action, tube, op, matched, done)
	}
	return nil
}

// operate begins an operation, and waits for its end.
func (o *operator) operate(in map[string]any) (op admin.Operation, err error) {
	if _, err := o.ask("POST", "/api/v1/operations", in, &op); err != nil {
		return op, err
	}
	for end := time.Now().Add(10 * time.Second); op.State != "done"; time.Sleep(time.Millisecond) {
		if time.Now().After(end) || op.Problem != nil {
			return op, fmt.Errorf("%v: %+v", in, op)
		}
		if _, err := o.ask("GET", fmt.Sprintf("/api/v1/operations/%d", op.ID), nil, &op); err != nil {
			return op, err
		}
	}
	return op, nil
}

// transfer moves or copies a job of the operator to a tube of its own.
func (o *operator) transfer(verb string) func() error {
	return func() error {
		id, j := o.mine()
		if j == nil {
			return nil
		}
		to := o.pick(operatorTubes...)
		var is admin.Transfer
		status, err := o.ask("POST", jobPath(id)+"/"+verb, map[string]any{"to": to}, &is, http.StatusUnprocessableEntity)
		stays := verb == "move" && to == j.tube
		switch {
		case err != nil:
			return err
		case stays != (status == http.StatusUnprocessableEntity):
			return fmt.Errorf("%s of job %d from %s to %s: %d", verb, id, j.tube, to, status)
		case stays:
			return nil
		case is.From != id || o.own[is.ID] != nil || is.Tube != to:
			return fmt.Errorf("%s of job %d to %s: %+v", verb, id, to, is)
		}
		o.own[is.ID] = &ownJob{to, j.state, j.pri}
		if verb == "move" {
			delete(o.own, id)
		} else {
			o.put++ // stats counts a copy as a put
		}
		return nil
	}
}

// moveMany moves all jobs of a tube of the operator to another.
func (o *operator) moveMany() error {
	from, to := operatorTubes[0], o.pick(operatorTubes[1:]...)
	moved := o.forget(func(j *ownJob) bool { return j.tube == from })
	op, err := o.operate(map[string]any{"action": "move", "select": map[string]any{"tube": from}, "to": to})
	if err != nil {
		return err
	}
	if op.Done != moved || op.Matched != moved {
		return fmt.Errorf("%d jobs from %s to %s: %+v", moved, from, to, op)
	}
	// They have new ids.
	o.forget(func(j *ownJob) bool { return j.tube == to })
	var page admin.Jobs
	if _, err := o.ask("GET", tubePath(to)+"/jobs?order=scan&limit=1000", nil, &page); err != nil {
		return err
	}
	for i := range page.Jobs {
		j := &page.Jobs[i]
		o.own[j.ID] = &ownJob{to, j.State, j.Pri}
	}
	return nil
}

// forget removes jobs from what the operator knows, and counts them.
func (o *operator) forget(gone func(j *ownJob) bool) (n uint64) {
	for id, j := range o.own {
		if gone(j) {
			delete(o.own, id)
			n++
		}
	}
	return n
}

// flush deletes all jobs of a tube of the operator that are in a state.
func (o *operator) flush() error {
	tube, state := o.pick(operatorTubes...), o.pick("ready", "delayed", "buried")
	var f admin.Flushed
	if _, err := o.ask("DELETE", tubePath(tube)+"/jobs?state="+state, nil, &f); err != nil {
		return err
	}
	if n := o.forget(func(j *ownJob) bool { return j.tube == tube && j.state == state }); f.Jobs != n {
		return fmt.Errorf("%s of %s: %+v, want %d", state, tube, f, n)
	}
	return nil
}
