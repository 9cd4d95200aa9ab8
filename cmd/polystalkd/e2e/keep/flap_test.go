//go:build linux

package keep

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/conversation"
	"polystalk/codec/gearman"
)

// A flapClient does things to jobs of its own, and knows what was acknowledged.
type flapClient struct {
	rng   *rand.Rand
	tube  string
	state map[uint64]string // acknowledged: ready, buried or delayed, and the priority
	maybe map[uint64]bool   // asked for something that was not answered
	gone  map[uint64]bool
	done  map[string]int
}

// run goes on until the server is gone.
func (f *flapClient) run(t *testing.T, address string) {
	c, err := conversation.Dial("tcp", address)
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	ask := func(format string, args ...any) (string, bool) {
		reply, err := c.Ask(fmt.Sprintf(format, args...))
		if err != nil && (errors.Is(err, os.ErrDeadlineExceeded)) {
			t.Errorf("%.60q hangs", fmt.Sprintf(format, args...))
		}
		return string(reply), err == nil
	}
	if _, ok := ask("use %s\r\n", f.tube); !ok {
		return
	}
	if _, ok := ask("watch %s\r\n", f.tube); !ok {
		return
	}
	for {
		if f.rng.IntN(2) == 0 || len(f.state) == 0 {
			size := f.rng.IntN(6000)
			switch f.rng.IntN(40) {
			case 0, 1, 2, 3:
				size = 60_000
			case 4:
				size = 100_000 + f.rng.IntN(900_000)
			}
			delay := f.rng.IntN(2) * 10000
			reply, ok := ask("put 7 %d 1000 %d\r\n%s\r\n", delay, size, strings.Repeat("b", size))
			if !ok {
				return
			}
			var id uint64
			if n, _ := fmt.Sscanf(reply, "INSERTED %d\r\n", &id); n == 1 {
				f.done["put"]++
				f.state[id] = "ready 7"
				if delay > 0 {
					f.state[id] = "delayed 7"
				}
				continue
			}
			if reply != "OUT_OF_MEMORY\r\n" {
				t.Errorf("put: %q", reply)
				return
			}
			f.done["refused"]++
		}
		var id uint64
		for id = range f.state {
			break
		}
		if id == 0 {
			continue
		}
		f.maybe[id] = true
		pri := 2000 + f.rng.IntN(1000)
		switch f.rng.IntN(5) {
		case 0, 1:
			reply, ok := ask("delete %d\r\n", id)
			if !ok {
				return
			}
			if reply == "DELETED\r\n" {
				f.done["delete"]++
				delete(f.state, id)
				f.gone[id] = true
			} else {
				t.Errorf("delete: %q", reply)
			}
		case 2:
			was, kind, _ := strings.Cut(f.state[id], " ")
			if was == "ready" {
				break
			}
			reply, ok := ask("kick-job %d\r\n", id)
			if !ok {
				return
			}
			if reply == "KICKED\r\n" {
				f.done["kick"]++
				f.state[id] = "ready " + kind
			}
		default:
			reply, ok := ask("reserve-job %d\r\n", id)
			if !ok {
				return
			}
			if !strings.HasPrefix(reply, "RESERVED ") {
				t.Errorf("reserve-job: %.40q", reply)
				break
			}
			word, want, as := "release %d %d 10000\r\n", "RELEASED\r\n", "delayed"
			if f.rng.IntN(2) == 0 {
				word, want, as = "bury %d %d\r\n", "BURIED\r\n", "buried"
			}
			if reply, ok = ask(word, id, pri); !ok {
				return
			}
			if reply == want {
				f.done[as]++
				f.state[id] = fmt.Sprint(as, " ", pri)
			} else {
				f.done["refused"]++
				// It stays reserved, which no start brings back.
				if reply, ok = ask("delete %d\r\n", id); !ok {
					return
				}
				if reply != "DELETED\r\n" {
					t.Errorf("delete: %q", reply)
				}
				delete(f.state, id)
				f.gone[id] = true
			}
		}
		delete(f.maybe, id)
	}
}

// leaveInTheMiddle puts large bodies of which only a part comes, until the server is gone.
func leaveInTheMiddle(address string, rng *rand.Rand) {
	for {
		c, err := conversation.Dial("tcp", address)
		if err != nil {
			return
		}
		size := 70_000 + rng.IntN(1_900_000)
		fmt.Fprintf(c, "put 7 0 1000 %d\r\n%s", size, strings.Repeat("l", rng.IntN(size)))
		time.Sleep(time.Duration(rng.IntN(5)) * time.Millisecond)
		if rng.IntN(2) == 0 {
			daemon.ResetClient(c)
		} else {
			c.Close()
		}
	}
}

// TestFlappingDisk kills a server whose disk is full now and then, over and over, while
// clients of both protocols work and workers drop their jobs. What was acknowledged is
// there each time, and nobody hangs. POLYSTALKD_FLAPS says how often.
func TestFlappingDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	rounds := daemon.Amount(t, "POLYSTALKD_FLAPS", 3)
	for _, shards := range []int{1, 4} {
		dir := daemon.SmallDisk(t, 6<<20)
		filler := filepath.Join(dir, "filler")
		var clients []*flapClient
		for i := range 12 {
			clients = append(clients, &flapClient{
				rng: rand.New(rand.NewPCG(uint64(shards), uint64(i))), tube: fmt.Sprint("tube", i),
				state: map[uint64]string{}, maybe: map[uint64]bool{}, gone: map[uint64]bool{}, done: map[string]int{},
			})
		}
		var mu sync.Mutex
		bg := map[int]bool{}
		for round := range rounds {
			policy := [][]string{{}, {"-f", "3"}, {"-F"}}[round%3]
			s, gear := daemon.StartGearman(t, append([]string{"-b", dir, "-s", "300000", "--gearman-retries", "1000000", "--gearman-failed", "bury", "-z", "2000000", "--log-level", "error", "--shards", fmt.Sprint(shards)}, policy...)...)
			c := daemon.Client(t, s)
			for _, f := range clients {
				var ids []uint64
				for id := range f.state {
					ids = append(ids, id)
				}
				for id := range f.maybe {
					ids = append(ids, id)
				}
				got := see(t, c, ids)
				for id, want := range f.state {
					if f.maybe[id] {
						if got[id] == nil {
							delete(f.state, id)
						} else {
							f.state[id] = got[id].stats["state"] + " " + got[id].stats["pri"]
						}
						continue
					}
					if got[id] == nil {
						t.Fatalf("%d shards, round %d: job %d (%s) is lost", shards, round, id, want)
					}
					if is := got[id].stats["state"] + " " + got[id].stats["pri"]; is != want {
						t.Errorf("%d shards, round %d: job %d was acknowledged as %s, is %s", shards, round, id, want, is)
						f.state[id] = is
					}
				}
				f.maybe = map[uint64]bool{}
				var gone []uint64
				for id := range f.gone {
					gone = append(gone, id)
				}
				for id := range see(t, c, gone) {
					t.Fatalf("%d shards, round %d: job %d is back", shards, round, id)
				}
				f.gone = map[uint64]bool{}
			}
			var numbers []uint64
			for n := range bg {
				numbers = append(numbers, uint64(n))
			}
			if got := see(t, c, numbers); len(got) != len(numbers) {
				t.Fatalf("%d shards, round %d: %d of %d background jobs are there", shards, round, len(got), len(numbers))
			}
			c.Close()
			var running sync.WaitGroup
			for _, f := range clients {
				running.Go(func() { f.run(t, s.Address) })
			}
			running.Go(func() {
				g := daemon.DialGearman(t, gear)
				for i := 0; ; i++ {
					if g.Send([]byte(daemon.Request(gearman.SubmitJobBG, "f", fmt.Sprint(round, "-", i), strings.Repeat("g", 500)))) != nil {
						return
					}
					kind, args, err := g.Reply()
					if kind == gearman.JobCreated {
						var n int
						fmt.Sscanf(string(args[0]), "H:lap:%d", &n)
						mu.Lock()
						bg[n] = true
						mu.Unlock()
					} else if kind != gearman.Error && err != nil {
						return
					}
				}
			})
			running.Go(func() { leaveInTheMiddle(s.Address, rand.New(rand.NewPCG(uint64(round), 99))) })
			for range 3 {
				w := daemon.DialGearman(t, gear)
				takes := []byte(strings.Repeat(daemon.Request(gearman.CanDo, "f")+daemon.Request(gearman.GrabJob)+daemon.Request(gearman.CantDo, "f"), 5))
				running.Go(func() { io.Copy(io.Discard, w.R) })
				running.Go(func() {
					for w.Send(takes) == nil {
						time.Sleep(time.Millisecond)
					}
				})
			}
			rng := rand.New(rand.NewPCG(uint64(round), uint64(shards)))
			for range 8 {
				os.WriteFile(filler, make([]byte, 1<<20+rng.IntN(3<<20)), 0o600) // as much as fits
				time.Sleep(time.Duration(rng.IntN(150)) * time.Millisecond)
				os.Remove(filler)
				time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond)
			}
			if rng.IntN(2) == 0 {
				os.WriteFile(filler, make([]byte, 1<<20+rng.IntN(3<<20)), 0o600)
				time.Sleep(time.Duration(rng.IntN(200)) * time.Millisecond)
			}
			daemon.Kill(s)
			running.Wait()
			os.Remove(filler)
		}
		sum := map[string]int{}
		for _, f := range clients {
			for k, n := range f.done {
				sum[k] += n
			}
		}
		t.Log(shards, "shards:", sum, "background", len(bg))
	}
}
