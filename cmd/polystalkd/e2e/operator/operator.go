// Package operator is somebody who operates a server by HTTP, at random, while a test plays
// with its clients. He has tubes of his own, with whose jobs he does whatever can be done;
// at all others he looks, and edits their jobs to what they are: no client may see a
// difference.
package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	wire "polystalk/codec/admin"
)

// Tubes are tubes of his own. Clients of a test keep them, so that they come and go for nobody.
var Tubes = []string{"operator-1", "operator-2", "operator-3"}

// An Operator does one thing after the other, until End.
type Operator struct {
	socket string
	http   *http.Client
	rng    *rand.Rand
	names  []string // of tubes of others, besides those that he finds

	mu   sync.Mutex // held while he does something
	own  map[uint64]*job
	put  uint64
	most uint64   // jobs that he may put; zero: any number
	seen []uint64 // jobs of others that he has seen last
	did  map[string]int
	err  error

	quit, done chan struct{}
}

// A job of his own.
type job struct {
	tube, state string
	pri         uint32
}

// New makes an operator for a server that is started with Flags.
func New(socket string, seed uint64) *Operator {
	o := &Operator{
		socket: socket, rng: rand.New(rand.NewPCG(seed, 10)), own: make(map[uint64]*job), did: make(map[string]int),
		names: []string{"default", "nosuchtube", "a/b?c", "\x00\xff"}, quit: make(chan struct{}), done: make(chan struct{}),
	}
	o.http = &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
	return o
}

// Flags are those with which the server listens for him.
func (o *Operator) Flags() []string { return []string{"--http", "unix:" + o.socket} }

// PutFirst has him put n jobs now, once the server serves, and none afterwards. He deletes
// none of them then.
func (o *Operator) PutFirst(n uint64) error {
	for o.most = n; o.put < n; {
		if err := o.putOwn(); err != nil {
			return err
		}
	}
	return nil
}

// Begin has him begin, once the server serves.
func (o *Operator) Begin() {
	go func() {
		defer close(o.done)
		for {
			select {
			case <-o.quit:
				return
			default:
			}
			if o.err = o.step(); o.err != nil {
				return
			}
			time.Sleep(time.Duration(o.rng.IntN(300)) * time.Microsecond)
		}
	}()
}

// End has him end, before the server does. It reports what was not answered as it must be.
func (o *Operator) End() error {
	close(o.quit)
	<-o.done
	o.http.CloseIdleConnections()
	return o.err
}

// Did says how often he has done what.
func (o *Operator) Did() map[string]int { return o.did }

// Still has him do nothing until goOn is called. It tells how many jobs of his there are.
func (o *Operator) Still() (own map[string]uint64, goOn func()) {
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

// A task is something that he does.
type task struct {
	name string
	do   func() error
}

// step does one thing.
func (o *Operator) step() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := []task{
		{"look", o.look}, {"look", o.look}, {"list", o.list}, {"list", o.list}, {"look at a job", o.lookAt},
		{"edit to the same", o.editSame}, {"edit to the same", o.editSame}, {"put", o.putOwn}, {"edit", o.editOwn},
		{"kick", o.act("kick")}, {"bury", o.act("bury")}, {"delete", o.act("")}, {"bulk", o.bulk}, {"pause", o.pause},
	}
	if o.most == 0 {
		list = append(list, []task{{"move", o.transfer("move")}, {"copy", o.transfer("copy")}, {"move many", o.moveMany}, {"flush", o.flush}}...)
	}
	what := list[o.rng.IntN(len(list))]
	if err := what.do(); err != nil {
		return fmt.Errorf("operator: %s: %w", what.name, err)
	}
	o.did[what.name]++
	return nil
}

// ask sends a request, and decodes what is answered into out unless that is nil. The codes
// are those that may be besides 2xx.
func (o *Operator) ask(method, path string, in any, out any, may ...int) (code int, header http.Header, err error) {
	return o.askIf(method, path, "", in, out, may...)
}

func (o *Operator) askIf(method, path, match string, in any, out any, may ...int) (code int, header http.Header, err error) {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return 0, nil, err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequest(method, "http://localhost"+path, body)
	if err != nil {
		return 0, nil, err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if match != "" {
		req.Header.Set("If-Match", match)
	}
	resp, err := o.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if resp.StatusCode/100 == 2 {
		if out != nil {
			if err := json.Unmarshal(b, out); err != nil {
				return 0, nil, fmt.Errorf("%s %s: %w", method, path, err)
			}
		}
		return resp.StatusCode, resp.Header, nil
	}
	for _, m := range may {
		if resp.StatusCode == m {
			return m, resp.Header, nil
		}
	}
	return 0, nil, fmt.Errorf("%s %s: %s: %.500s", method, path, resp.Status, b)
}

// look looks at what concerns all.
func (o *Operator) look() error {
	paths := []string{"/livez", "/readyz", "/metrics", "/metrics/tubes", "/api/v1/server", "/api/v1/journal", "/api/v1/tubes", "/api/v1/operations"}
	_, _, err := o.ask("GET", paths[o.rng.IntN(len(paths))], nil, nil)
	return err
}

func tubePath(name string) string { return "/api/v1/tubes/" + url.PathEscape(name) }

// name is that of a tube of anybody.
func (o *Operator) name() string {
	all := append(append([]string(nil), o.names...), Tubes...)
	return all[o.rng.IntN(len(all))]
}

func (o *Operator) pick(list ...string) string { return list[o.rng.IntN(len(list))] }

// list shows all jobs that are wanted, in parts.
func (o *Operator) list() error {
	q := url.Values{"limit": {o.pick("1", "3", "100", "1000")}, "body": {o.pick("none", "preview", "full")}}
	path := "/api/v1/jobs"
	switch o.rng.IntN(3) {
	case 0:
		path = tubePath(o.name()) + "/jobs"
		q.Set("order", o.pick("next", "oldest", "newest"))
		q.Set("state", o.pick("ready", "delayed", "buried"))
	case 1:
		path = tubePath(o.name()) + "/jobs"
		fallthrough
	default:
		if path != "/api/v1/jobs" {
			q.Set("order", "scan")
		}
		if o.rng.IntN(2) == 0 {
			q.Set("contains", o.pick("a", "b", "xyz"))
		}
	}
	shown := make(map[uint64]bool)
	for range 20 {
		var page wire.Jobs
		code, _, err := o.ask("GET", path+"?"+q.Encode(), nil, &page, http.StatusNotFound, http.StatusTooManyRequests)
		if err != nil || code != http.StatusOK {
			return err
		}
		for i := range page.Jobs {
			j := &page.Jobs[i]
			if shown[j.ID] && q.Get("state") == "" {
				return fmt.Errorf("%s?%s shows job %d twice", path, q.Encode(), j.ID)
			}
			shown[j.ID] = true
			if _, own := o.own[j.ID]; !own {
				o.seen = append(o.seen, j.ID)
			}
			if name, err := url.PathUnescape(j.Path); err == nil && !o.knows(name) {
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

func (o *Operator) knows(name string) bool {
	return slices.Contains(append(o.names, Tubes...), name)
}

func jobPath(id uint64) string { return "/api/v1/jobs/" + strconv.FormatUint(id, 10) }

// other is a job of somebody else, or was one.
func (o *Operator) other() uint64 {
	if len(o.seen) == 0 {
		return 1
	}
	return o.seen[o.rng.IntN(len(o.seen))]
}

func (o *Operator) lookAt() error {
	path := jobPath(o.other()) + o.pick("", "?body=full", "/body")
	_, _, err := o.ask("GET", path, nil, nil, http.StatusNotFound)
	return err
}

// editSame edits a job of somebody else to what it is, unless it has changed since.
func (o *Operator) editSame() error {
	id := o.other()
	var j wire.Job
	code, header, err := o.ask("GET", jobPath(id)+"?body=full", nil, &j, http.StatusNotFound)
	if err != nil || code != http.StatusOK {
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
	code, _, err = o.askIf("PATCH", jobPath(id)+"?force=true", header.Get("ETag"), edit, nil,
		http.StatusNotFound, http.StatusPreconditionFailed, http.StatusConflict)
	if code == http.StatusNoContent {
		o.did["edited to the same"]++
	}
	return err
}

// putOwn puts a job of his own, unless there are many.
func (o *Operator) putOwn() error {
	if o.most == 0 && len(o.own) >= 40 || o.most > 0 && o.put >= o.most {
		return nil
	}
	j := &job{tube: o.pick(Tubes...), state: "ready", pri: uint32(o.rng.IntN(3) * 1000)}
	in := map[string]any{"pri": j.pri, "ttr_seconds": 1000, "body": strings.Repeat("operated ", 1+o.rng.IntN(20))}
	if o.rng.IntN(3) == 0 {
		j.state = "delayed"
		in["delay_seconds"] = 5000
	}
	var put wire.Put
	if _, _, err := o.ask("POST", tubePath(j.tube)+"/jobs", in, &put); err != nil {
		return err
	}
	o.put++
	if o.own[put.ID] != nil {
		return fmt.Errorf("job %d is put twice", put.ID)
	}
	o.own[put.ID] = j
	return nil
}

// mine is a job of his own; zero: there is none.
func (o *Operator) mine() uint64 {
	least, at := uint64(0), o.rng.Uint64()
	for id := range o.own {
		if least == 0 || id^at < least^at {
			least = id
		}
	}
	return least
}

// act does something to a job of his own: a verb, or to delete it.
func (o *Operator) act(verb string) func() error {
	return func() error {
		id := o.mine()
		j := o.own[id]
		if j == nil || verb == "" && o.spares() {
			return nil
		}
		method, path, fits, to := "POST", jobPath(id)+"/"+verb, j.state != "ready", "ready"
		switch verb {
		case "":
			method, path, fits = "DELETE", jobPath(id), true
		case "bury":
			fits, to = j.state != "buried", "buried"
		}
		code, _, err := o.ask(method, path, nil, nil, http.StatusConflict)
		switch {
		case err != nil:
			return err
		case fits != (code != http.StatusConflict):
			return fmt.Errorf("%s of job %d, which is %s: %d", verb, id, j.state, code)
		case !fits:
		case verb == "":
			delete(o.own, id)
		default:
			j.state = to
		}
		return nil
	}
}

// spares reports whether he lets his jobs live.
func (o *Operator) spares() bool { return o.most > 0 }

func (o *Operator) editOwn() error {
	id := o.mine()
	j := o.own[id]
	if j == nil {
		return nil
	}
	pri := uint32(o.rng.IntN(3) * 1000)
	if _, _, err := o.ask("PATCH", jobPath(id), map[string]any{"pri": pri, "body": strings.Repeat("edited ", o.rng.IntN(50))}, nil); err != nil {
		return err
	}
	j.pri = pri
	return nil
}

// pause pauses one of his tubes, or ends that.
func (o *Operator) pause() error {
	path := tubePath(o.pick(Tubes...)) + "/pause"
	if o.rng.IntN(2) == 0 {
		_, _, err := o.ask("PUT", path, map[string]any{"seconds": 1000}, nil)
		return err
	}
	_, _, err := o.ask("DELETE", path, nil, nil)
	return err
}

// bulk does the same to all jobs of one of his tubes.
func (o *Operator) bulk() error {
	tube, action := o.pick(Tubes...), o.pick("delete", "kick", "bury", "set")
	if action == "delete" && o.spares() {
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
		if action == "kick" && j.state == "ready" || action == "bury" && j.state == "buried" {
			continue
		}
		done++
		if op.DryRun {
			continue
		}
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
	if op.DryRun {
		done = 0
	}
	if op.Matched != matched || op.Done != done {
		return fmt.Errorf("%s in %s: %+v, want %d and %d done", action, tube, op, matched, done)
	}
	return nil
}

// operate begins an operation, and waits for its end.
func (o *Operator) operate(in map[string]any) (op wire.Operation, err error) {
	if _, _, err := o.ask("POST", "/api/v1/operations", in, &op); err != nil {
		return op, err
	}
	for end := time.Now().Add(10 * time.Second); op.State != "done"; time.Sleep(time.Millisecond) {
		if time.Now().After(end) || op.Problem != nil {
			return op, fmt.Errorf("%v: %+v", in, op)
		}
		if _, _, err := o.ask("GET", "/api/v1/operations/"+strconv.FormatUint(op.ID, 10), nil, &op); err != nil {
			return op, err
		}
	}
	return op, nil
}
