package core

import (
	"fmt"
	"testing"
)

// BenchmarkJoin is one more client that waits for a job for which many do.
func BenchmarkJoin(b *testing.B) {
	for _, n := range []int{1, 100, 20_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c := New(nil)
			defer c.Close()
			var last JobID
			op := Op{Kind: opSubmit, Name: []byte("f"), Body: []byte("x"), Function: &FunctionOp{Mail: new(Mail), Numbers: counter{&last}}}
			op.Function.setUnique([]byte("u"))
			var r Reply
			for range n {
				op.Client = 0
				c.Apply(1, &op, &r)
			}
			for b.Loop() {
				op.Kind, op.Client = opSubmit, 0
				c.Apply(1, &op, &r)
				op.Kind, op.Client = OpClose, r.Client
				c.Apply(1, &op, &r)
			}
		})
	}
}

type counter struct{ last *JobID }

func (c counter) NextID() JobID { *c.last++; return *c.last }

// BenchmarkSubmitUnique submits a job and runs it, where other functions have a
// job with the same unique id.
func BenchmarkSubmitUnique(b *testing.B) {
	for _, n := range []int{0, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c := New(nil)
			defer c.Close()
			var last JobID
			op := Op{Kind: opSubmit, Body: []byte("x"), Function: &FunctionOp{Mail: new(Mail), Numbers: counter{&last}, Background: true}}
			op.Function.setUnique([]byte("u"))
			var r Reply
			for i := range n {
				op.Name = fmt.Append(nil, i)
				c.Apply(1, &op, &r)
			}
			op.Name = []byte("f")
			for b.Loop() {
				op.Kind = opSubmit
				c.Apply(1, &op, &r)
				op.Kind, op.ID = opCancelJob, r.ID
				c.Apply(1, &op, &r)
			}
		})
	}
}
