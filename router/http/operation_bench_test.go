package http

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"polystalk/router/admin"
	"polystalk/shard/core"
	"polystalk/shard/stats"
)

// A cycling client puts a job, reserves it and deletes it, again and again, and knows how
// long each of these took.
type cycling struct {
	over atomic.Bool
	wait sync.WaitGroup
	took []time.Duration
}

// cycle has a client do that in the tube other until it is stopped.
func (w *world) cycle() *cycling {
	w.t.Helper()
	c := &cycling{}
	conn := w.connect(w.srv.Serve)
	conn.SetDeadline(time.Now().Add(10 * time.Minute))
	in := bufio.NewReader(conn)
	say := func(lines int, line string) (said string) {
		io.WriteString(conn, line)
		for range lines {
			said, _ = in.ReadString('\n')
		}
		return said
	}
	say(1, "use other\r\n")
	say(1, "watch other\r\n")
	say(1, "ignore default\r\n")
	c.wait.Go(func() {
		for !c.over.Load() {
			start := time.Now()
			var id uint64
			fmt.Sscanf(say(1, "put 0 0 100 1\r\nx\r\n"), "INSERTED %d", &id)
			put := time.Now()
			say(2, "reserve\r\n")
			reserved := time.Now()
			say(1, fmt.Sprintf("delete %d\r\n", id))
			c.took = append(c.took, put.Sub(start), reserved.Sub(put), time.Since(reserved))
		}
	})
	return c
}

// report ends it, and tells how long a command took at the 99th of 100, and at most.
func (c *cycling) report(b *testing.B) {
	c.over.Store(true)
	c.wait.Wait()
	slices.Sort(c.took)
	b.ReportMetric(float64(c.took[len(c.took)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(float64(c.took[len(c.took)-1].Microseconds()), "most-µs")
}

// longest is the bound below which all steps were that were counted in between, a power of
// four.
func longest(before, after stats.Counts) (seconds float64) {
	for i := range after.N {
		if after.N[i] > before.N[i] {
			seconds = stats.HistogramSeconds(i)
		}
	}
	return seconds
}

// BenchmarkOperations is the same done to a million jobs of one tube, in memory and with a
// journal, while another client works in another tube: seconds for the million, how long its
// commands took, and below what time a shard was had. alone is that client without an
// operation.
func BenchmarkOperations(b *testing.B) {
	const jobs = 1_000_000
	for _, name := range []string{"memory", "journal"} {
		dir := ""
		if name == "journal" {
			dir = b.TempDir()
		}
		w := newWorld(b, setup{dir: dir})
		o := w.srv.Operator()
		run := func(a core.Action, dry bool) admin.Tally {
			bulk := admin.Bulk{Jobs: admin.JobQuery{Tube: "mail"}, AtMost: math.MaxUint64, Action: admin.Verb{Action: a}, DryRun: dry}
			var p admin.Progress
			if err := o.RunBulk(context.Background(), &bulk, &p); err != nil {
				b.Fatal(err)
			}
			return p.Tally()
		}
		fill := func() {
			var filling sync.WaitGroup
			for range 4 {
				filling.Go(func() { w.fillLong(jobs / 4) })
			}
			filling.Wait()
		}
		fill()
		b.Run(name+"/alone", func(b *testing.B) {
			for b.Loop() {
				c := w.cycle()
				time.Sleep(time.Second)
				c.report(b)
			}
		})
		kick, bury := core.Action{Verb: core.VerbKick}, core.Action{Verb: core.VerbBury}
		for _, act := range []struct {
			name          string
			before, after func()
			core.Action
		}{
			{"count", nil, nil, core.Action{Verb: core.VerbTouch}},
			{"set-pri", nil, nil, core.Action{Verb: core.VerbSet, Changes: core.ChangePri, Pri: 7}},
			{"set-ttr", nil, nil, core.Action{Verb: core.VerbSet, Changes: core.ChangeTTR, TTR: 70}},
			{"set-delay", nil, func() { run(kick, false) }, core.Action{Verb: core.VerbSet, Changes: core.ChangeDelay, Delay: 7000}},
			{"bury", nil, func() { run(kick, false) }, bury},
			{"kick", func() { run(bury, false) }, nil, kick},
			{"delete", nil, fill, core.Action{Verb: core.VerbDelete}},
		} {
			b.Run(name+"/"+act.name, func(b *testing.B) {
				for b.Loop() {
					b.StopTimer()
					if act.before != nil {
						act.before()
					}
					steps := o.Steps()
					c := w.cycle()
					b.StartTimer()
					t := run(act.Action, act.name == "count")
					b.StopTimer()
					c.report(b)
					if t.Matched != jobs || act.name != "count" && t.Done != jobs {
						b.Fatalf("%+v", t)
					}
					b.ReportMetric(longest(steps, o.Steps())*1e6, "own-µs")
					if act.after != nil {
						act.after()
					}
					b.StartTimer()
				}
			})
		}
	}
}

// fillLong is fill for many jobs with priorities in no order.
func (w *world) fillLong(jobs int) {
	conn := w.connect(w.srv.Serve)
	conn.SetDeadline(time.Now().Add(10 * time.Minute))
	go func() {
		out := bufio.NewWriterSize(conn, 1<<16)
		io.WriteString(out, "use mail\r\n")
		body := strings.Repeat("x", 60)
		for i := range jobs {
			fmt.Fprintf(out, "put %d 0 100 60\r\n%s\r\n", i*7919%100_003, body)
		}
		out.Flush()
	}()
	in := bufio.NewReaderSize(conn, 1<<16)
	for range jobs + 1 {
		if _, err := in.ReadString('\n'); err != nil {
			w.t.Error(err)
			return
		}
	}
	conn.Close()
}
