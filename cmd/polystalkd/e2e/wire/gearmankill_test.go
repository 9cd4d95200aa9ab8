package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/gearman"
)

// gearmanRounds is how often TestGearmanKills kills: POLYSTALKD_GEARMAN_KILLS.
func gearmanRounds(t *testing.T) int {
	s := os.Getenv("POLYSTALKD_GEARMAN_KILLS")
	if s == "" {
		return 5
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("POLYSTALKD_GEARMAN_KILLS: %v", err)
	}
	return n
}

const (
	killSubmitters = 6
	killWorkers    = 6
	killJobs       = 60 // of a submitter in a round
	killEvery      = 60 // a connection lives for less events than that
)

// A gearmanKilling is the whole campaign on one server.
type gearmanKilling struct {
	address string

	mu        sync.Mutex
	events    int                       // acknowledgements and completions
	dying     map[*mortalConn]int       // at which event each connection is killed
	acked     map[string]bool           // background jobs
	reported  map[string]bool           // a worker has sent WORK_COMPLETE
	confirmed map[string]bool           // and knows that it has arrived
	kills     map[bool]int              // of workers and others
	fail      func(string, ...any)      // t.Errorf
	counts    struct{ again, fore int } // given out again; foreground jobs served
}

// A mortalConn is killed by closing it, at times without a farewell.
type mortalConn struct {
	*daemon.GearmanConn
	worker bool
	cut    bool // what it still reads is of the past
}

func (k *gearmanKilling) dial(rng *rand.Rand, worker, mortal bool) (*mortalConn, error) {
	n, err := net.Dial("tcp", k.address)
	if err != nil {
		return nil, err
	}
	c := &mortalConn{GearmanConn: &daemon.GearmanConn{TCPConn: n.(*net.TCPConn), R: bufio.NewReader(n)}, worker: worker}
	_ = c.SetDeadline(time.Now().Add(daemon.ClientTime))
	if rng.IntN(2) == 0 {
		_ = c.SetLinger(0)
	}
	if mortal {
		k.mu.Lock()
		k.dying[c] = k.events + 1 + rng.IntN(killEvery)
		k.mu.Unlock()
	}
	return c, nil
}

// event counts, and kills those whose time has come. k.mu is held.
func (k *gearmanKilling) event() {
	k.events++
	for c, at := range k.dying {
		if at <= k.events {
			delete(k.dying, c)
			k.kills[c.worker]++
			c.cut = true
			c.Close()
		}
	}
}

var killSubmits = []gearman.Type{
	gearman.SubmitJobBG, gearman.SubmitJobHighBG, gearman.SubmitJobLowBG, gearman.SubmitJobBG,
	gearman.SubmitJob, gearman.SubmitJobHigh, gearman.SubmitJobLow,
}

// submit sends jobs from *n on, several at a time, until all are acknowledged
// or the connection is killed.
func (k *gearmanKilling) submit(c *mortalConn, rng *rand.Rand, name string, n *int) error {
	for *n < killJobs {
		var out []byte
		var sent []string // in order; empty: a foreground job
		for range 1 + rng.IntN(8) {
			kind := killSubmits[rng.IntN(len(killSubmits))]
			payload := fmt.Sprintf("%s-%d", name, *n)
			*n++
			unique := ""
			if rng.IntN(2) == 0 {
				unique = payload
			}
			function := "kill" + strconv.Itoa(rng.IntN(4))
			_, background, _ := kind.Submits()
			out = gearman.AppendRequest(out, kind, []byte(function), []byte(unique), []byte(payload))
			if !background {
				payload = ""
			}
			sent = append(sent, payload)
		}
		if err := c.Send(out); err != nil {
			return err
		}
		for len(sent) > 0 {
			t, _, err := c.Reply()
			if err != nil {
				return err
			}
			k.mu.Lock()
			switch {
			case t != gearman.JobCreated:
				k.counts.fore++ // it is served
			default:
				if sent[0] != "" {
					k.acked[sent[0]] = true
				}
				sent = sent[1:]
				k.event()
			}
			k.mu.Unlock()
		}
	}
	return nil
}

// work does jobs until the connection is killed, or until idle returns true
// when there are none; without idle it sleeps then.
func (k *gearmanKilling) work(c *mortalConn, rng *rand.Rand, idle func() (bool, error)) error {
	var out []byte
	for i := range 4 {
		out = gearman.AppendRequest(out, gearman.CanDo, []byte("kill"+strconv.Itoa(i)))
	}
	grab := []gearman.Type{gearman.GrabJob, gearman.GrabJobUniq, gearman.GrabJobAll}[rng.IntN(3)]
	reported := ""
	for {
		if err := c.Send(gearman.AppendRequest(out, grab)); err != nil {
			return err
		}
		out = out[:0]
		t, args, err := c.Reply()
		for err == nil && t == gearman.Noop {
			t, args, err = c.Reply()
		}
		if err != nil {
			return err
		}
		if reported != "" {
			k.mu.Lock()
			k.confirmed[reported] = true
			k.event()
			k.mu.Unlock()
			reported = ""
		}
		switch t {
		case gearman.NoJob:
			if idle != nil {
				if end, err := idle(); end || err != nil {
					return err
				}
				continue
			}
			if err = c.Send(gearman.AppendRequest(nil, gearman.PreSleep)); err != nil {
				return err
			}
			if t, _, err = c.Reply(); err != nil {
				return err
			}
			if t != gearman.Noop {
				return fmt.Errorf("%v for a sleeping worker", t)
			}
		case gearman.JobAssign, gearman.JobAssignUniq, gearman.JobAssignAll:
			payload := string(args[2][bytes.LastIndexByte(args[2], 0)+1:])
			k.mu.Lock()
			if c.cut {
				k.mu.Unlock()
				return daemon.ErrCut
			}
			if k.confirmed[payload] {
				k.fail("job %s was completed and is given out again", payload)
			}
			if k.reported[payload] {
				k.counts.again++
			}
			k.reported[payload] = true
			k.event() // which may kill this worker with its job
			k.mu.Unlock()
			out = gearman.AppendRequest(out, gearman.WorkComplete, args[0], []byte("done"))
			reported = payload
		default:
			return fmt.Errorf("%v for a worker that asked for a job", t)
		}
	}
}

// empty reports whether the server has no jobs.
func (k *gearmanKilling) empty(admin *mortalConn) (bool, error) {
	if err := admin.Send([]byte("status\n")); err != nil {
		return false, err
	}
	none := true
	for {
		line, err := admin.R.ReadString('\n')
		if err != nil || line == gearman.MsgEnd {
			return none, err
		}
		if f := strings.Split(line, "\t"); len(f) != 4 || f[1] != "0" || f[2] != "0" {
			none = false
		}
	}
}

// again starts do on connection after connection until it is through.
func (k *gearmanKilling) again(rng *rand.Rand, worker bool, over <-chan struct{}, do func(*mortalConn) error) {
	for {
		c, err := k.dial(rng, worker, true)
		if err == nil {
			err = do(c)
			c.Close()
			k.mu.Lock()
			delete(k.dying, c)
			k.mu.Unlock()
		}
		if err == nil {
			return
		}
		if !errors.Is(err, daemon.ErrCut) {
			k.fail("%v", err)
			return
		}
		select {
		case <-over:
			return
		default:
		}
	}
}

func (k *gearmanKilling) round(n int) {
	over := make(chan struct{})
	var submitters, workers sync.WaitGroup
	for i := range killWorkers {
		workers.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(n), uint64(i)))
			k.again(rng, true, over, func(c *mortalConn) error {
				stop := make(chan struct{})
				defer close(stop)
				go func() {
					select {
					case <-over:
						k.mu.Lock()
						c.cut = true
						k.mu.Unlock()
						c.Close()
					case <-stop:
					}
				}()
				return k.work(c, rng, nil)
			})
		})
	}
	for i := range killSubmitters {
		submitters.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(n), 1000+uint64(i)))
			jobs := 0
			k.again(rng, false, nil, func(c *mortalConn) error {
				return k.submit(c, rng, fmt.Sprintf("%d-%d", n, i), &jobs)
			})
		})
	}
	submitters.Wait()
	close(over) // the workers die, most with a job
	workers.Wait()

	rng := rand.New(rand.NewPCG(uint64(n), 2000))
	admin, err := k.dial(rng, false, false)
	if err != nil {
		k.fail("%v", err)
		return
	}
	defer admin.Close()
	last, err := k.dial(rng, true, false)
	if err != nil {
		k.fail("%v", err)
		return
	}
	defer last.Close()
	end := time.Now().Add(daemon.ClientTime)
	err = k.work(last, rng, func() (bool, error) {
		if time.Now().After(end) {
			return true, errors.New("jobs are left which nobody gets")
		}
		time.Sleep(time.Millisecond) // until the server has seen who died
		return k.empty(admin)
	})
	if err != nil {
		k.fail("round %d: %v", n, err)
	}
	for payload := range k.acked {
		if !k.reported[payload] {
			k.fail("round %d: job %s was acknowledged and never done", n, payload)
		}
	}
}

// TestGearmanKills kills workers and clients at random under load: no
// background job that was acknowledged is lost.
func TestGearmanKills(t *testing.T) {
	_, gear := daemon.StartGearman(t)
	k := &gearmanKilling{
		address: gear, dying: map[*mortalConn]int{}, kills: map[bool]int{},
		acked: map[string]bool{}, reported: map[string]bool{}, confirmed: map[string]bool{}, fail: t.Errorf,
	}
	rounds := gearmanRounds(t)
	for n := range rounds {
		if k.round(n); t.Failed() {
			break
		}
	}
	if len(k.acked) == 0 || k.kills[true] == 0 || k.kills[false] == 0 {
		t.Errorf("nothing was tried")
	}
	t.Logf("%d rounds: %d background jobs acknowledged, %d workers and %d clients killed, %d jobs done again, %d foreground jobs served",
		rounds, len(k.acked), k.kills[true], k.kills[false], k.counts.again, k.counts.fore)
}
