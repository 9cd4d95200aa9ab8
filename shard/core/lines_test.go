package core

import (
	"testing"
	"unsafe"

	"polystalk/shard/slab"
)

// TestNothingSharesCacheLines: what different cores of the machine write at
// every operation are whole pairs of lines, and of a size that the allocator
// has a class for, so it aligns them. With less, two goroutines on shards of
// their own were slower than one.
func TestNothingSharesCacheLines(t *testing.T) {
	for name, size := range map[string]uintptr{
		"Core": unsafe.Sizeof(Core{}),
		"Pool": unsafe.Sizeof(slab.Pool[Job]{}),
		"sums": unsafe.Sizeof(coreSums{}),
	} {
		if size != 256 && size != 512 && size != 640 {
			t.Errorf("%s has %d bytes, want 256, 512 or 640: change the padding at its end", name, size)
		}
	}
}
