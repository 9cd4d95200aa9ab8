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

// TestFlowFootprint: a flow costs nothing a job, and a used tube at most 360 bytes more: the
// allocator's classes are 288 instead of 256, and 320.
func TestFlowFootprint(t *testing.T) {
	if job, tube, flow := unsafe.Sizeof(Job{}), unsafe.Sizeof(tube{}), unsafe.Sizeof(stats.Flow{}); job != 96 || tube > 288 || flow > 320 {
		t.Errorf("a job has %d bytes, a tube %d, its flow %d", job, tube, flow)
	}
}
