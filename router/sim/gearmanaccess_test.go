package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"polystalk/codec/gearman"
	"polystalk/router"
	"polystalk/router/access"
)

// TestReloadsOfTheAccessFileWithGearman lets Gearman's clients, workers and administrators work while
// the access file changes. Each reply must be right by a version of the file between its request and
// the reply. A connection is closed only for a right that it uses and has lost, and none keeps a
// function for which it may not work.
func TestReloadsOfTheAccessFileWithGearman(t *testing.T) {
	seen := map[string]int{}
	seeds(t, 150, func(seed uint64) error { return newGearAccess(t, seed, seen).run(1500) })
	wantSeen(t, seen, "reloads", "killed", "authenticated", "UNAUTHORIZED", "unproven", "denied submission", "denied worker", "denied line",
		"JOB_CREATED", "JOB_ASSIGN", "OK", "shown job", "shown unique", "shown function", "hidden job", "followed job")
}

// A gearAccess is a world with Gearman clients and an access file that changes.
type gearAccess struct {
	t         *testing.T
	rng       *rand.Rand
	w         *world
	file      *accessFile
	all       []*access.Identities // by version
	functions []string
	live      []*gearHolder
	jobs      map[uint64]string // functions of jobs
	seen      map[string]int
	// from is the oldest version by which a message that runs now may be decided. before is its value
	// at the beginning of a step.
	from, before int
}

// A gearHolder is a client, a worker and an administrator with a token.
type gearHolder struct {
	k       *sock
	token   string // empty: none
	asked   []gearRequest
	at      int             // its next reply is decided by this version or a later one
	proven  int             // the newest version when it authenticated
	refused bool            // the server may close the connection behind a reply
	over    bool            // it closes it
	follows map[uint64]bool // jobs for which it waits
	runs    []uint64
	able    []string // functions for which it worked, or was about to, when the last reload began
}

// A gearRequest is a message that has no reply yet.
type gearRequest struct {
	t            gearman.Type
	line         string
	fn, reducer  string
	id           uint64
	since        int
	isBackground bool
}

func (q *gearRequest) isAuth() bool {
	return q.t == gearman.OptionReq || strings.HasPrefix(q.line, "auth ")
}

func newGearAccess(t *testing.T, seed uint64, seen map[string]int) *gearAccess {
	rng := rand.New(rand.NewPCG(seed, 8))
	a := &gearAccess{t: t, rng: rng, seen: seen, jobs: map[uint64]string{}, functions: []string{"mail", "mail-1", "hr", "x\x00y"}}
	a.file = newAccessFile(t, "[identity.default]\n")
	cfg := router.Config{Access: a.file.ids, Shards: []int{1, 2, 4, 16}[rng.IntN(4)], Gearman: router.GearmanConfig{Prefix: prefix}}
	w, err := New(seed, 1+rng.IntN(3), cfg)
	if err != nil {
		panic(err)
	}
	a.w = w
	a.change()
	return a
}

// change writes another file, and makes the server read it.
func (a *gearAccess) change() {
	if err := os.WriteFile(a.file.path, []byte(a.text()), 0o600); err != nil {
		a.t.Fatal(err)
	}
	use, err := a.file.ids.Prepare()
	if err != nil {
		a.t.Fatal(err)
	}
	use()
	ids, err := access.Open(a.file.path)
	if err != nil {
		a.t.Fatal(err)
	}
	a.all = append(a.all, ids)
}

func (a *gearAccess) pick(list ...string) string { return list[a.rng.IntN(len(list))] }

func (a *gearAccess) text() string {
	var b strings.Builder
	b.WriteString("plaintext-tokens = true\n[identity.nobody]\n")
	for i := range 3 {
		if a.rng.IntN(12) == 0 {
			continue
		}
		fmt.Fprintf(&b, "[identity.i%d]\ntokens = [\"sha256:%x\"]\n", i, access.DigestOf(gearToken(i)))
		a.rights(&b)
	}
	if a.rng.IntN(2) == 0 {
		b.WriteString("[identity.default]\n")
		a.rights(&b)
	}
	return b.String()
}

func (a *gearAccess) rights(b *strings.Builder) {
	for _, verb := range []string{"put", "work", "look", "manage"} {
		if a.rng.IntN(4) > 0 {
			fmt.Fprintf(b, "%s = [\"%s\", \"%s\"]\n", verb, a.pick("*", "mail*", "hr", "x?y"), a.pick("*", "mail", "!mail", "!hr", "!x*"))
		}
	}
}

func gearToken(i int) string { return fmt.Sprintf("a-token-of-gearman-clients-%d", i) }

func (a *gearAccess) run(n int) error {
	defer a.w.Close()
	for i := range n {
		a.before = a.from
		if err := a.step(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	for _, h := range a.live {
		h.k.halfClose()
	}
	a.before = a.from
	if err := a.rest(); err != nil {
		return err
	}
	a.w.D.Server.Host().Access = nil // for the client that removes the jobs
	return empty(a.w)
}

func (a *gearAccess) step() error {
	switch r := a.rng.IntN(100); {
	case r < 55:
		for range 1 + a.rng.IntN(8) {
			a.w.late()
		}
	case r < 88:
		if len(a.live) > 0 {
			a.message(a.live[a.rng.IntN(len(a.live))])
		}
	case r < 94:
		if len(a.live) < 6 {
			a.open()
		}
	case r < 96:
		a.w.jump(time.Duration(a.rng.IntN(700)) * time.Millisecond)
	case r < 98 && a.from == len(a.all)-1:
		a.reload()
	default:
		return a.rest()
	}
	return a.readAll()
}

// rest lets everything happen, and checks what clients keep.
func (a *gearAccess) rest() error {
	if err := a.w.rest(); err != nil {
		return err
	}
	if err := a.readAll(); err != nil {
		return err
	}
	if a.from != len(a.all)-1 {
		return errors.New("a reload does not end")
	}
	for _, h := range a.live {
		for _, fn := range h.k.s.Snapshot(100).Client.Watched {
			if yes, _ := a.may(h, a.from, access.Work, fn); !yes {
				return fmt.Errorf("a client works for %q, and may not", fn)
			}
		}
	}
	return a.w.Check()
}

func (a *gearAccess) reload() {
	for _, h := range a.live {
		h.able = nil
		if !h.k.Ended {
			h.able = h.k.s.Snapshot(100).Client.Watched
		}
		for _, q := range h.asked {
			if q.t == gearman.CanDo {
				h.able = append(h.able, q.fn)
			}
		}
	}
	a.change()
	a.seen["reloads"]++
	version := len(a.all) - 1
	a.w.D.Server.Host().Reauthorize(func(int) { a.from = version })
}

func (a *gearAccess) open() {
	h := &gearHolder{k: a.w.openGearman(), at: a.before, follows: map[uint64]bool{}}
	a.live = append(a.live, h)
	if a.rng.IntN(6) > 0 {
		h.token = gearToken(a.rng.IntN(3))
		if a.rng.IntN(2) == 0 {
			a.say(h, gearRequest{t: gearman.OptionReq}, "auth "+h.token)
		} else {
			a.say(h, gearRequest{t: gearman.Text, line: "auth " + h.token})
		}
	}
}

func (a *gearAccess) say(h *gearHolder, q gearRequest, args ...string) {
	q.since = a.before
	h.asked = append(h.asked, q)
	if q.t == gearman.Text {
		h.k.Send([]byte(q.line + "\n"))
		return
	}
	h.k.Send(packet(q.t, args...))
}

// message sends a message. Each one without a reply has an echo behind it.
func (a *gearAccess) message(h *gearHolder) {
	fn := a.pick(a.functions...)
	word := a.pick("mail", "mail-1", "hr") // a line has no NUL
	id := 1 + a.rng.Uint64N(uint64(len(a.jobs))+1)
	handle := fmt.Sprint(prefix, ":", id)
	switch r := a.rng.IntN(100); {
	case r < 25:
		t := []gearman.Type{gearman.SubmitJob, gearman.SubmitJobBG, gearman.SubmitJobHighBG}[a.rng.IntN(3)]
		a.say(h, gearRequest{t: t, fn: word, isBackground: t != gearman.SubmitJob}, word, a.pick("", "of-"+word), "\x00REQ\x00\x00\x00\x10"+strings.Repeat("z", a.rng.IntN(3000)))
	case r < 30:
		reducer := a.pick("", "mail", "hr")
		a.say(h, gearRequest{t: gearman.SubmitReduceJobBG, fn: word, reducer: reducer, isBackground: true}, word, "", reducer, "", "data")
	case r < 45:
		a.say(h, gearRequest{t: gearman.CanDo, fn: fn}, fn)
	case r < 47:
		a.say(h, gearRequest{t: gearman.ResetAbilities})
		h.runs = nil
	case r < 62:
		a.say(h, gearRequest{t: gearman.GrabJob})
	case r < 66:
		a.say(h, gearRequest{t: gearman.PreSleep})
	case r < 74:
		if len(h.runs) == 0 {
			return
		}
		a.say(h, gearRequest{t: gearman.WorkComplete}, fmt.Sprint(prefix, ":", h.runs[0]), "done")
		h.runs = h.runs[1:]
	case r < 80:
		a.say(h, gearRequest{t: gearman.GetStatus, id: id}, handle)
	case r < 84:
		a.say(h, gearRequest{t: gearman.GetStatusUnique, fn: word}, "of-"+word)
	case r < 90:
		a.say(h, gearRequest{t: gearman.Text, line: a.pick("status", "show jobs", "prioritystatus", "workers")})
	case r < 94:
		a.say(h, gearRequest{t: gearman.Text, line: a.pick("maxqueue ", "create function ") + word, fn: word})
	case r < 97:
		a.say(h, gearRequest{t: gearman.Text, line: "cancel job " + handle, id: id})
	default:
		h.k.halfClose()
		return
	}
	if slices.Contains(silent, h.asked[len(h.asked)-1].t) {
		a.say(h, gearRequest{t: gearman.EchoReq}, "behind")
	}
}

func (a *gearAccess) readAll() error {
	for _, h := range a.live {
		err := gearPackets(h.k, func(p *gearPacket) error {
			if err := a.hear(h, p); err != nil {
				return fmt.Errorf("reply %v %q to %+v: %w", p.t, p.args, h.asked[:min(1, len(h.asked))], err)
			}
			return nil
		})
		if err == nil && h.k.Ended && len(h.k.Got) == 0 {
			err = a.closed(h)
		}
		if err != nil {
			return err
		}
	}
	a.live = slices.DeleteFunc(a.live, func(h *gearHolder) bool { return h.k.Ended && len(h.k.Got) == 0 })
	return nil
}

// TestReloadBeforeTheEndOfAMessage: the rights count when the data of a submission is complete.
func TestReloadBeforeTheEndOfAMessage(t *testing.T) {
	file := newAccessFile(t, "[identity.default]\nput = [\"f\"]\n")
	w, err := New(1, 1, router.Config{Access: file.ids, Shards: 1, Gearman: router.GearmanConfig{Prefix: prefix}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	k := w.openGearman()
	b := packet(gearman.SubmitJobBG, "f", "", strings.Repeat("status\n", 100))
	play := func(send []byte, want string) {
		t.Helper()
		k.Send(send)
		if err := w.rest(); err != nil {
			t.Fatal(err)
		}
		if got := string(k.Got); got != want {
			t.Fatalf("%q, want %q", got, want)
		}
		k.Got = nil
	}
	created := func(id uint64) string {
		return string(gearman.AppendJobCreated(nil, gearman.Handle{Prefix: prefix, ID: id}))
	}
	play(b, created(1))
	play(b[:len(b)-300], "")
	play(b[len(b)-300:], created(2))
	play(b[:len(b)-300], "")
	if err := os.WriteFile(file.path, []byte("[identity.default]\nput = [\"g\"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	use, err := file.ids.Prepare()
	if err != nil {
		t.Fatal(err)
	}
	use()
	w.D.Server.Host().Reauthorize(func(killed int) {
		if killed != 0 {
			t.Error("a client that holds nothing is closed")
		}
	})
	play(b[len(b)-300:], string(gearman.AppendError(nil, gearman.ErrorNotPermitted)))
	play(packet(gearman.SubmitJobBG, "g", "", "x"), created(3))
}
