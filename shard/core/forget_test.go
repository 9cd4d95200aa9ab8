package core

import (
	"fmt"
	"runtime"
	"testing"
)

// TestUnusedFunctionIsForgotten: a function lives for functionRest after its last use,
// whatever that was, and for ever if somebody has set something about it.
func TestUnusedFunctionIsForgotten(t *testing.T) {
	const step, end = 10 * Second, 20_000 * Second
	name := []byte("f")
	worker := func(p *functionPeer) { // for a step
		f := p.able("f", 0)
		p.pass(step)
		p.op(Op{Kind: opUnregister, Tube: f}, StatusOK)
	}
	limit := func(p *functionPeer, n uint32) {
		p.function.Limits = [NumClasses]uint32{n, n, n}
		p.op(Op{Kind: opLimitFunction, Name: name}, StatusOK)
	}
	for _, tc := range []struct {
		name string
		use  func(p *functionPeer)
		rest Time // from when on it is not used; Never
	}{
		{"a job that is done", func(p *functionPeer) {
			p.submit("f", "", "x", 0, true, 1)
			p.pass(step)
			p.do(Op{Kind: OpDelete, ID: 1}, StatusOK)
		}, step},
		{"a worker that left", worker, step},
		{"used again", func(p *functionPeer) {
			worker(p)
			p.pass(functionRest - step)
			worker(p)
		}, functionRest + step},
		{"a job that waits", func(p *functionPeer) { p.submit("f", "", "x", 0, true, 1) }, Never},
		{"a worker that stays", func(p *functionPeer) { p.able("f", 0) }, Never},
		{"created", func(p *functionPeer) { p.op(Op{Kind: opCreateFunction, Name: name}, StatusOK) }, Never},
		{"a limit", func(p *functionPeer) {
			worker(p)
			limit(p, 5)
		}, Never},
		{"a limit that was taken away", func(p *functionPeer) {
			worker(p)
			limit(p, 5)
			p.pass(step)
			limit(p, 0)
		}, 2 * step},
		{"a pause", func(p *functionPeer) {
			worker(p)
			p.do(Op{Kind: OpPause, Name: name, Delay: 7200}, StatusOK)
		}, step + 7200*Second},
		{"a beanstalkd client", func(p *functionPeer) {
			worker(p)
			tube := p.do(Op{Kind: OpUse, Name: name}, StatusOK).Tube
			p.pass(step)
			p.do(Op{Kind: OpUnuse, Tube: tube}, StatusOK)
		}, 2 * step},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newFunctionWorld(t, SubmitOptions{}).session()
			start := p.now
			tc.use(p)
			for ; p.now < start+end; p.pass(step) {
				rested := tc.rest != Never && p.now >= start+tc.rest+functionRest
				if there := p.core.findTube(name) != nil; there == rested {
					t.Fatalf("%d s after the start it is there: %t", (p.now-start)/Second, there)
				}
			}
		})
	}
}

// TestNamesGiveMemoryBack: of many functions little is left once they are forgotten: the
// lists of handles stay as long as their last one was when they were last looked at.
func TestNamesGiveMemoryBack(t *testing.T) {
	c := New(nil)
	defer c.Close()
	c.Pin("default")
	var r Reply
	now := Second
	submit := func(i int) {
		function := FunctionOp{Background: true, Numbers: count(i + 1)}
		c.Apply(now, &Op{Kind: opSubmit, Name: fmt.Appendf(nil, "function %d", i), Function: &function}, &r)
		if r.Status != StatusOK {
			t.Fatalf("status %d", r.Status)
		}
	}
	submit(0)
	c.Apply(now, &Op{Kind: OpDelete, ID: 1}, &r)
	before := heap()
	const names = 50_000
	for i := range names {
		submit(i)
		c.Apply(now, &Op{Kind: OpDelete, ID: JobID(i + 1)}, &r)
	}
	full := heap()
	for now += functionRest; c.Next() <= now; {
		c.Expire(now)
	}
	after := heap()
	t.Logf("%d bytes a name, %d left", (full-before)/names, (after-before)/names)
	if c.Counts().Tubes != 1 || after-before > (full-before)/30 {
		t.Errorf("%d tubes; %d bytes of the heap before, %d with all names, %d after", c.Counts().Tubes, before, full, after)
	}
	for i := range 3 * names / shrinkPart { // the handles are in order again
		submit(i)
	}
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
}

// A count is the only id that it gives out.
type count JobID

func (n count) NextID() JobID { return JobID(n) }

// heap is how many bytes are in use, without garbage.
func heap() int64 {
	var m runtime.MemStats
	for range 2 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
