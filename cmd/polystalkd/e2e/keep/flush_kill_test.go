package keep

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
	wire "polystalk/codec/admin"
	"polystalk/codec/conversation"
)

// A flusher is a client of one tube, whose jobs come, are held, buried and deleted, and an
// operator who flushes it, while the process is killed again and again.
type flusher struct {
	*asker
	tube  string
	begun chan<- struct{} // is told of flushes

	c    *conversation.Client
	rng  *rand.Rand
	jobs map[string]*flushedJob // by the token in their bodies; those that may be there
	dead map[string]bool        // those that are gone, as acknowledged

	puts, flushed int
	unanswered    []string // what a flush was to take that was not answered
	halves        int      // flushes of which a part came back
}

// A flushedJob is one job, as far as it was acknowledged.
type flushedJob struct {
	id     uint64
	state  string
	held   bool // by the client, so ready after a kill
	unsure bool // it may be there or not: what would tell was not answered
	buries bool // that was not answered
}

// put puts some jobs at once.
func (f *flusher) put(n int) (tokens []string, err error) {
	var b bytes.Buffer
	for range n {
		f.puts++
		token := fmt.Sprintf("%s %d;", f.tube, f.puts)
		j := &flushedJob{state: "ready", unsure: true}
		delay := 0
		if f.rng.IntN(4) == 0 {
			j.state, delay = "delayed", 1000
		}
		body := token + strings.Repeat("x", f.rng.IntN(100))
		if f.rng.IntN(2000) == 0 {
			body += strings.Repeat("x", 70_000)
		}
		fmt.Fprintf(&b, "put %d %d 1000 %d\r\n%s\r\n", f.rng.IntN(2000), delay, len(body), body)
		f.jobs[token] = j
		tokens = append(tokens, token)
	}
	fed := daemon.Feed(f.c, b.Bytes())
	for _, token := range tokens {
		reply, err := f.c.Reply(conversation.Patience)
		if err != nil {
			return tokens, errKilled
		}
		j := f.jobs[token]
		if _, err := fmt.Sscanf(string(reply), "INSERTED %d\r\n", &j.id); err != nil {
			return tokens, fmt.Errorf("put: %q", reply)
		}
		j.unsure = false
	}
	<-fed
	return tokens, nil
}

// work reserves a job, and holds, buries or deletes it.
func (f *flusher) work() error {
	head, body, err := talk(f.c, "reserve-with-timeout 0\r\n")
	if err != nil || head == "TIMED_OUT" {
		return err
	}
	var id uint64
	if _, err := fmt.Sscanf(head, "RESERVED %d", &id); err != nil {
		return fmt.Errorf("reserve: %q", head)
	}
	token := tokenOf(body)
	j := f.jobs[token]
	if j == nil || j.id != id || j.state != "ready" || j.held {
		return fmt.Errorf("job %d was given out, %.40q, dead: %v, known as %+v", id, body, f.dead[token], j)
	}
	j.held = true
	want := ""
	switch f.rng.IntN(6) {
	case 0, 1, 2:
		want, j.buries = "BURIED", true
		head, _, err = talk(f.c, "bury %d 5\r\n", id)
	case 3:
		want, j.unsure = "DELETED", true
		head, _, err = talk(f.c, "delete %d\r\n", id)
	default:
		return nil
	}
	if err != nil {
		return err
	}
	if head != want {
		return fmt.Errorf("job %d, which is reserved: %q", id, head)
	}
	if j.held = false; j.buries {
		j.state, j.buries = "buried", false
	} else {
		f.gone(token)
	}
	return nil
}

// gone notes that a job is, as acknowledged.
func (f *flusher) gone(token string) {
	delete(f.jobs, token)
	f.dead[token] = true
}

// A flushAnswer is what a flush was answered by.
type flushAnswer struct {
	wire.Flushed
	code int
	err  error
}

// flush flushes some states while jobs come, sometimes only of those that were counted.
func (f *flusher) flush() error {
	states := []string{"ready", "delayed", "buried"}
	f.rng.Shuffle(3, func(i, k int) { states[i], states[k] = states[k], states[i] })
	states = states[:1+f.rng.IntN(3)]
	path := "/tubes/" + f.tube + "/jobs?state=" + strings.Join(states, ",")
	var taken []string
	for token, j := range f.jobs {
		if !j.held && slices.Contains(states, j.state) {
			taken = append(taken, token)
		}
	}
	counted := f.rng.IntN(3) == 0
	if counted {
		var n flushAnswer
		if n.code, n.err = f.ask("DELETE", path+"&dry_run=true", nil, &n.Flushed); n.err != nil {
			return n.err
		}
		if n.code != 200 || n.Jobs != uint64(len(taken)) {
			return fmt.Errorf("a dry run counts %+v, there are %d", n, len(taken))
		}
		path += "&as_of=" + url.QueryEscape(n.AsOf)
		if _, err := f.put(f.rng.IntN(3)); err != nil { // of these none is to go
			return err
		}
	}
	for _, token := range taken {
		f.jobs[token].unsure = true
	}
	f.unanswered = taken
	answer := make(chan flushAnswer, 1)
	select {
	case f.begun <- struct{}{}:
	default:
	}
	go func() {
		var n flushAnswer
		n.code, n.err = f.ask("DELETE", path, nil, &n.Flushed)
		answer <- n
	}()
	meanwhile, err := f.put(f.rng.IntN(30))
	if !counted {
		for _, token := range meanwhile { // it may have come before
			j := f.jobs[token]
			j.unsure = j.unsure || slices.Contains(states, j.state)
		}
	}
	n := <-answer
	if err := errors.Join(n.err, err); err != nil {
		if n.err == nil {
			f.took(taken)
		}
		return err
	}
	f.took(taken)
	if n.code != 200 {
		return fmt.Errorf("a flush is answered by %d", n.code)
	}
	f.flushed += int(n.Jobs)
	return f.look(int(n.Jobs)-len(taken), meanwhile)
}

// took notes that a flush has taken jobs, as acknowledged.
func (f *flusher) took(tokens []string) {
	for _, token := range tokens {
		f.gone(token)
	}
	f.unanswered = nil
}

// look finds out what a flush that was answered has left; it has taken so many of those that
// came meanwhile.
func (f *flusher) look(more int, meanwhile []string) error {
	there, err := f.list(f.tube)
	if err != nil {
		return err
	}
	for token := range there {
		if f.dead[token] {
			return fmt.Errorf("%q was flushed, and is there", token)
		}
	}
	missing := 0
	for token, j := range f.jobs {
		switch {
		case len(there[token]) > 0:
			j.unsure = false
		case !j.unsure:
			return fmt.Errorf("%q is not there any more: %+v", token, j)
		default:
			missing++
			f.gone(token)
		}
	}
	if more != missing {
		return fmt.Errorf("%d more jobs were flushed than there were before, of %d that came meanwhile %d are missing", more, len(meanwhile), missing)
	}
	return nil
}

// run is a client's round.
func (f *flusher) run(address string) error {
	c, err := conversation.Dial("tcp", address)
	if err != nil {
		return errKilled
	}
	defer c.Close()
	f.c = c
	for _, command := range []string{"use " + f.tube, "watch " + f.tube, "ignore default"} {
		if _, _, err := talk(c, "%s\r\n", command); err != nil {
			return err
		}
	}
	for {
		n := f.rng.IntN(60)
		if f.rng.IntN(3) == 0 && len(f.jobs) < 5000 {
			n = 1000 + f.rng.IntN(6000) // it is reclaimed in several parts
		}
		if _, err := f.put(n); err != nil {
			return err
		}
		for range f.rng.IntN(20) {
			if err := f.work(); err != nil {
				return err
			}
		}
		if err := f.flush(); err != nil {
			return err
		}
	}
}

// check compares what came back with what is known.
func (f *flusher) check(t *testing.T) {
	t.Helper()
	found, err := f.list(f.tube)
	if err != nil {
		t.Fatal(err)
	}
	back := 0
	for _, token := range f.unanswered {
		back += len(found[token])
	}
	if back > 0 && back < len(f.unanswered) {
		f.halves++
	}
	f.unanswered = nil
	for token, list := range found {
		j := f.jobs[token]
		switch {
		case f.dead[token]:
			t.Errorf("%q was deleted or flushed, and is there again as job %d", token, list[0].ID)
		case j == nil || len(list) != 1 || j.id != 0 && list[0].ID != j.id:
			t.Errorf("%q is there %d times, as job %d, and is known as %+v", token, len(list), list[0].ID, j)
		case list[0].State != j.state && !(j.buries && list[0].State == "buried"):
			t.Errorf("%q is %s, and is known as %+v", token, list[0].State, j)
		default:
			*j = flushedJob{id: list[0].ID, state: list[0].State}
		}
	}
	for token, j := range f.jobs {
		if len(found[token]) > 0 {
			continue
		}
		if !j.unsure {
			t.Errorf("%q is lost: %+v", token, j)
		}
		delete(f.jobs, token)
	}
}

// TestKillAmidFlushes: what a flush that was answered has taken stays gone; of one that was
// not, jobs may come back or not. What a worker held is there, and what came after it. For
// hundreds of rounds if POLYSTALKD_KILLS says so.
func TestKillAmidFlushes(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	total := daemon.Amount(t, "POLYSTALKD_KILLS", 36)
	for i, p := range []struct {
		name string
		args []string
	}{{"always", nil}, {"every", []string{"-f", "5"}}, {"never", []string{"-F"}}} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			killAmidFlushes(t, uint64(i), (total+i)/3, p.args)
		})
	}
}

func killAmidFlushes(t *testing.T, seed uint64, rounds int, args []string) {
	dir, socket := t.TempDir(), filepath.Join(daemon.ShortDir(t), "http")
	rng := rand.New(rand.NewPCG(seed, *daemon.Seed))
	var operator asker
	var all []*flusher
	begun := make(chan struct{})
	for i := range 3 {
		all = append(all, &flusher{
			asker: &operator, tube: fmt.Sprintf("t%d", i), begun: begun,
			jobs: make(map[string]*flushedJob), dead: make(map[string]bool),
		})
	}
	for round := range rounds + 1 {
		shards := []string{"1", "2", "4", "16"}[rng.IntN(4)]
		s := startKept(t, dir, append([]string{"-s", "300000", "-z", "200000", "--shards", shards, "--http", "unix:" + socket}, args...)...)
		operator = askerOf(socket)
		for _, f := range all {
			f.check(t)
		}
		if t.Failed() {
			t.Fatalf("in round %d of %d, with %s shards", round, rounds, shards)
		}
		if round == rounds {
			break
		}
		var wg sync.WaitGroup
		for _, f := range all {
			f.rng = rand.New(rand.NewPCG(rng.Uint64(), 1))
			wg.Go(func() {
				if err := f.run(s.Address); !errors.Is(err, errKilled) {
					t.Errorf("tube %s: %v", f.tube, err)
				}
			})
		}
		time.Sleep(time.Duration(30+rng.IntN(400)) * time.Millisecond)
		if rng.IntN(3) > 0 {
			select {
			case <-begun:
				time.Sleep(time.Duration(rng.IntN(10_000)) * time.Microsecond)
			case <-time.After(2 * time.Second):
			}
		}
		daemon.Kill(s)
		wg.Wait()
		operator.http.CloseIdleConnections()
	}
	flushed, halves := 0, 0
	for _, f := range all {
		flushed += f.flushed
		halves += f.halves
	}
	t.Logf("%d kills, %d jobs flushed as acknowledged, of %d flushes a part came back", rounds, flushed, halves)
	if flushed == 0 {
		t.Error("nothing was ever flushed")
	}
}
