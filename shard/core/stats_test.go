package core

import (
	"testing"
	"unsafe"

	"polystalk/shard/stats"
)

// flowIn is the flow of a tube.
func (w *world) flowIn(name string) (f Flow) {
	w.t.Helper()
	x := new(OperatorOp)
	w.do(Op{Kind: opFlow, Name: []byte(name), Operator: x}, StatusOK)
	return x.Flow
}

// TestFlowTellsHowLongJobsTook: to wait, and to be run, whatever ends that.
func TestFlowTellsHowLongJobsTook(t *testing.T) {
	w := newWorld(t)
	p := w.join("a")
	first, second := p.put(5, 0, 100), p.put(5, 0, 100)
	w.pass(3 * Second)
	p.reserve(first)
	w.pass(5 * Second)
	if f := w.flowIn("a"); f.Oldest != 8*Second || !f.Waiting || f.Events[stats.Reserve] != 1 || f.Bytes != 10 {
		t.Errorf("%+v", f)
	}
	p.on(OpDelete, first, StatusOK)
	p.reserve(second)
	p.release(second, 5, 0)
	f := w.flowIn("a")
	if wait, run := f.Wait.N, f.Run.N; wait[stats.FlowBucket(3e9)] != 1 || wait[stats.FlowBucket(8e9)] != 1 || run[stats.FlowBucket(5e9)] != 1 || run[0] != 1 {
		t.Errorf("waits %v, runs %v", wait, run)
	}
	if f.Oldest != 0 || !f.Waiting || f.Puts != 2 || f.Deletes != 1 || f.Events[stats.Release] != 1 {
		t.Errorf("%+v", f)
	}
	w.do(Op{Kind: opFlow, Name: []byte("unknown"), Operator: new(OperatorOp)}, StatusNotFound)
}

// TestAgeOutlivesTheProcess: a job is as old after a restart, and a delay that ended
// meanwhile ended when it did.
func TestAgeOutlivesTheProcess(t *testing.T) {
	w := newWorld(t)
	s := newScribe(w.core)
	p := w.join("a")
	p.put(5, 10, 100)
	released := p.put(5, 0, 100)
	p.reserve(released)
	w.pass(4 * Second)
	p.release(released, 5, 0)
	w.pass(3 * Second)
	w.again(s)
	if f := w.flowIn("a"); f.Oldest != 3*Second {
		t.Errorf("the oldest is %d s old, want 3", f.Oldest/Second)
	}
	w.now += 20 * Second
	w.again(s)
	p = w.join("a")
	p.on(OpDelete, released, StatusOK)
	if f := w.flowIn("a"); f.Oldest != 17*Second {
		t.Errorf("the oldest is %d s old, want 17", f.Oldest/Second)
	}
}

// TestFlowFootprint: nothing a job, and at most 360 bytes more a tube that is used, of which
// the allocator's classes are 288 less 256, and 320.
func TestFlowFootprint(t *testing.T) {
	if job, tube, flow := unsafe.Sizeof(Job{}), unsafe.Sizeof(tube{}), unsafe.Sizeof(stats.Flow{}); job != 96 || tube > 288 || flow > 320 {
		t.Errorf("a job has %d bytes, a tube %d, its flow %d", job, tube, flow)
	}
}
