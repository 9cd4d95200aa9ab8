package keep

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
	wire "polystalk/codec/admin"
	"polystalk/codec/conversation"
)

// A mover is an operator who moves jobs while a process is killed again and again, and what is
// known of these jobs. Some are moved one by one, while a worker takes them from where they
// are; the others all at once, back and forth.
type mover struct {
	asker
	t   *testing.T
	rng *rand.Rand

	mu    sync.Mutex
	jobs  map[string]*movedJob // by the token in their bodies
	dead  map[uint64]bool      // what was deleted or moved away, as acknowledged
	puts  int
	moves int // jobs that were moved, as acknowledged
	twice int // jobs that a crash has left twice
}

// A movedJob is one job, as far as it was acknowledged, and what is under way with it.
type movedJob struct {
	id                       uint64 // zero: not known
	group                    int
	state                    string
	pri, size                int
	putting, moving, leaving bool // a put, a move, a delete was sent, and not answered
	gone                     bool // the delete was
}

// The tubes of each group.
var movedTubes = [2][2]string{{"one-a", "one-b"}, {"all-a", "all-b"}}

func (m *mover) body(token string, size int) string {
	return token + strings.Repeat("x", max(0, size-len(token)))
}

// put puts a job of a group.
func (m *mover) put(c *conversation.Client, group int, rng *rand.Rand) error {
	m.mu.Lock()
	m.puts++
	token := fmt.Sprintf("job %d;", m.puts)
	j := &movedJob{group: group, state: "ready", pri: rng.IntN(2000), size: rng.IntN(600), putting: true}
	if rng.IntN(60) == 0 {
		j.size = 60_000 + rng.IntN(60_000) // also some that are large
	}
	delay := 0
	if rng.IntN(4) == 0 {
		j.state, delay = "delayed", 1000
	}
	m.jobs[token] = j
	m.mu.Unlock()
	body := m.body(token, j.size)
	if _, _, err := talk(c, "use %s\r\n", movedTubes[group][0]); err != nil {
		return err
	}
	head, _, err := talk(c, "put %d %d 100 %d\r\n%s\r\n", j.pri, delay, len(body), body)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if j.putting = false; j.gone {
		return nil // a worker was quicker than the answer
	}
	if _, err := fmt.Sscanf(head, "INSERTED %d", &j.id); err != nil {
		return fmt.Errorf("put: %q", head)
	}
	return nil
}

// runOnes puts jobs and moves them, one at a time.
func (m *mover) runOnes(address string, rng *rand.Rand) error {
	c, err := conversation.Dial("tcp", address)
	if err != nil {
		return errKilled
	}
	defer c.Close()
	for {
		m.mu.Lock()
		var all []string
		for token, j := range m.jobs {
			if j.group == 0 && !j.gone && j.id != 0 {
				all = append(all, token)
			}
		}
		m.mu.Unlock()
		if len(all) < 30 || rng.IntN(4) == 0 && len(all) < 100 {
			if err := m.put(c, 0, rng); err != nil {
				return err
			}
			continue
		}
		if err := m.moveOne(all[rng.IntN(len(all))], rng); err != nil {
			return err
		}
	}
}

func (m *mover) moveOne(token string, rng *rand.Rand) error {
	m.mu.Lock()
	j := m.jobs[token]
	id := j.id
	j.moving = true
	m.mu.Unlock()
	var tr wire.Transfer
	code, err := m.ask("POST", fmt.Sprintf("/jobs/%d/move", id), map[string]string{"to": movedTubes[0][rng.IntN(2)]}, &tr)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	j.moving = false
	switch code {
	case 201:
		m.moves++
		m.dead[id] = true
		if j.id = tr.ID; tr.From != id || j.leaving && m.dead[tr.ID] {
			return fmt.Errorf("the move of job %d answers %+v", id, tr)
		}
	case 404, 409, 422: // a worker has it, or has had it, or it is there already
	default:
		return fmt.Errorf("the move of job %d is answered by %d", id, code)
	}
	return nil
}

// work reserves jobs from where they are moved to and fro, and deletes most.
func (m *mover) work(address string, rng *rand.Rand) error {
	c, err := conversation.Dial("tcp", address)
	if err != nil {
		return errKilled
	}
	defer c.Close()
	for _, tube := range movedTubes[0] {
		if _, _, err := talk(c, "watch %s\r\n", tube); err != nil {
			return err
		}
	}
	for {
		time.Sleep(time.Duration(rng.IntN(3)) * time.Millisecond)
		head, body, err := talk(c, "reserve-with-timeout 0\r\n")
		var id uint64
		if err != nil {
			return err
		} else if head == "TIMED_OUT" || head == "DEADLINE_SOON" {
			continue
		} else if _, err := fmt.Sscanf(head, "RESERVED %d", &id); err != nil {
			return fmt.Errorf("reserve: %q", head)
		}
		m.mu.Lock()
		j := m.jobs[tokenOf(body)]
		switch {
		case j == nil || m.dead[id]:
			m.mu.Unlock()
			return fmt.Errorf("job %d was given out, which is gone: %.40q", id, body)
		case j.gone:
			m.mu.Unlock()
			return fmt.Errorf("job %d was given out, and was done under another id: %.40q", id, body)
		}
		deletes := rng.IntN(3) > 0
		j.leaving = deletes
		m.mu.Unlock()
		want := "RELEASED"
		if deletes {
			want = "DELETED"
			head, _, err = talk(c, "delete %d\r\n", id)
		} else {
			head, _, err = talk(c, "release %d %d 0\r\n", id, j.pri)
		}
		if err != nil {
			return err
		}
		if head != want {
			return fmt.Errorf("job %d, which is reserved: %q", id, head)
		}
		m.mu.Lock()
		if deletes {
			j.leaving, j.gone = false, true
			m.dead[id] = true
		}
		m.mu.Unlock()
	}
}

// runAll puts jobs and moves all of them, with one operation.
func (m *mover) runAll(address string, rng *rand.Rand) error {
	c, err := conversation.Dial("tcp", address)
	if err != nil {
		return errKilled
	}
	defer c.Close()
	for at := rng.IntN(2); ; at = 1 - at {
		for range rng.IntN(30) {
			if err := m.put(c, 1, rng); err != nil {
				return err
			}
		}
		if err := m.moveAll(movedTubes[1][at], movedTubes[1][1-at]); err != nil {
			return err
		}
	}
}

// moveAll moves all jobs of a tube, and looks what has become of them.
func (m *mover) moveAll(from, to string) error {
	m.mu.Lock()
	for _, j := range m.jobs {
		j.moving = j.moving || j.group == 1
	}
	m.mu.Unlock()
	var op wire.Operation
	code, err := m.ask("POST", "/operations", map[string]any{"action": "move", "select": map[string]any{"tube": from}, "to": to}, &op)
	for err == nil && op.Ended == nil && code != 404 {
		code, err = m.ask("GET", fmt.Sprintf("/operations/%d", op.ID), nil, &op)
	}
	if err != nil {
		return err
	}
	if code != 404 && (op.State != "done" || op.Done != op.Matched || len(op.Skipped) > 0) {
		return fmt.Errorf("the move of all is answered by %d: %+v", code, op)
	}
	left, err := m.list(from)
	if err != nil {
		return err
	}
	there, err := m.list(to)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.moves += int(op.Done)
	if len(left) > 0 {
		return fmt.Errorf("%d jobs were left in %s", len(left), from)
	}
	for token, j := range m.jobs {
		if j.group != 1 {
			continue
		}
		if len(there[token]) != 1 {
			return fmt.Errorf("there are %d of %q", len(there[token]), token)
		}
		if is := there[token][0].ID; is != j.id {
			m.dead[j.id] = true
			j.id = is
		}
		j.moving = false
	}
	return nil
}

// check compares what came back with what is known.
func (m *mover) check() {
	t := m.t
	t.Helper()
	found, err := m.list("")
	if err != nil {
		t.Fatal(err)
	}
	for token, j := range m.jobs {
		list := found[token]
		delete(found, token)
		for i := range list {
			is := &list[i]
			if m.dead[is.ID] {
				t.Errorf("%q is there again as job %d, which was deleted or moved away", token, is.ID)
			}
			// Of a large body a list shows the beginning.
			body := m.body(token, j.size)
			if is.State != j.state || int(is.Pri) != j.pri || is.Size != len(body) || !strings.HasPrefix(body, *is.Text) || is.Moving {
				t.Errorf("%q came back as job %d, %s, of priority %d, with %d bytes, was %+v", token, is.ID, is.State, is.Pri, is.Size, j)
			}
		}
		most, least := 1, 1
		if j.gone {
			most, least = 0, 0
		}
		if j.moving {
			most++
		}
		if j.putting || j.leaving {
			least = 0
		}
		if len(list) > most || len(list) < least {
			t.Errorf("%q is there %d times, at most %d, at least %d were to be: %+v", token, len(list), most, least, j)
		}
		if len(list) == 1 && !j.gone && !j.moving && j.id != 0 && list[0].ID != j.id {
			t.Errorf("%q is there as job %d, was job %d", token, list[0].ID, j.id)
		}
		if len(list) > 1 {
			m.twice++
		}
		for len(list) > 1 || j.gone && len(list) > 0 { // nothing is there twice in the next round
			id := list[0].ID
			if code, err := m.ask("DELETE", fmt.Sprintf("/jobs/%d", id), nil, nil); code != 204 {
				t.Fatalf("job %d cannot be deleted: %d, %v", id, code, err)
			}
			m.dead[id] = true
			list = list[1:]
		}
		if len(list) == 0 {
			delete(m.jobs, token)
			continue
		}
		j.id, j.putting, j.moving, j.leaving = list[0].ID, false, false, false
	}
	for token, list := range found {
		t.Errorf("nobody knows %d of %q: job %d in %s", len(list), token, list[0].ID, list[0].Tube)
	}
}

// TestKillAmidMoves: what a move has answered holds; no job is lost, none is there more than
// twice, and twice only if its move was not answered. In between no worker ever gets a job
// twice. For hundreds of rounds if POLYSTALKD_KILLS says so.
func TestKillAmidMoves(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	eachPolicy(t, daemon.Amount(t, "POLYSTALKD_KILLS", 36), killAmidMoves)
}

func killAmidMoves(t *testing.T, seed uint64, rounds int, args []string) {
	dir, socket := t.TempDir(), filepath.Join(daemon.ShortDir(t), "http")
	m := &mover{t: t, rng: rand.New(rand.NewPCG(seed, *daemon.Seed)), jobs: make(map[string]*movedJob), dead: make(map[uint64]bool)}
	for round := range rounds + 1 {
		shards := []string{"1", "2", "4", "16"}[m.rng.IntN(4)]
		s := startKept(t, dir, append([]string{"-s", "300000", "-z", "200000", "--shards", shards, "--http", "unix:" + socket}, args...)...)
		m.asker = askerOf(socket)
		if m.check(); t.Failed() {
			t.Fatalf("in round %d of %d, with %s shards", round, rounds, shards)
		}
		if round == rounds {
			break
		}
		var wg sync.WaitGroup
		for k, run := range []func(string, *rand.Rand) error{m.runOnes, m.work, m.runAll} {
			rng := rand.New(rand.NewPCG(m.rng.Uint64(), uint64(k)))
			wg.Go(func() {
				if err := run(s.Address, rng); !errors.Is(err, errKilled) {
					t.Errorf("client %d: %v", k, err)
				}
			})
		}
		time.Sleep(time.Duration(30+m.rng.IntN(250)) * time.Millisecond)
		daemon.Kill(s)
		wg.Wait()
		m.http.CloseIdleConnections()
	}
	t.Logf("%d kills, %d jobs moved as acknowledged, %d were there twice after a kill", rounds, m.moves, m.twice)
	if m.moves == 0 {
		t.Error("nothing was ever moved")
	}
}
