package transport

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkMessages sends messages of a size as fast as the other node takes them.
func BenchmarkMessages(b *testing.B) {
	for _, size := range []int{100, 4 << 10, 256 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			var taken atomic.Int64
			x := newNode(b, 1, nil)
			y := newNode(b, 2, func(y *Transport) { y.o.Receive = func(uint64, []byte) { taken.Add(1) } })
			meet(x, y)
			m := make([]byte, size)
			await(b, "they are connected", func() bool { return x.Send(2, m) })
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				for !x.Send(2, m) {
					time.Sleep(10 * time.Microsecond)
				}
			}
			await(b, "all has come", func() bool { return taken.Load() > int64(b.N) })
		})
	}
}
