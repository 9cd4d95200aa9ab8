package slab

import (
	"fmt"
	"os"
	"runtime/debug"
	"testing"
)

// resident returns the process's resident memory in bytes.
func resident(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip("no /proc/self/statm here: ", err)
	}
	var size, pages int
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * pageSize
}

// The kernel's own figures, with room for what the runtime does meanwhile.
func TestResidentMemoryFollowsUse(t *testing.T) {
	const total = 64 << 20
	b := NewBytes()
	defer b.Close()
	data := make([]byte, 1000)
	refs := make([]uint32, total/len(data))
	clear(refs) // touch them
	debug.FreeOSMemory()
	before := resident(t)
	for i := range refs {
		refs[i], _ = b.Put(data)
	}
	full := resident(t)
	for _, ref := range refs {
		b.Free(ref, len(data))
	}
	after := resident(t)
	if full-before < total*9/10 || full-before > total*5/4 || after-before > total/8 {
		t.Errorf("resident %d before, %d with %d stored, %d after", before, full, total, after)
	}
	// One string in each class: pages, not regions.
	for _, size := range classSize[:32] { // up to 1 KiB
		b.Put(data[:min(int(size), len(data))])
	}
	if few := resident(t); few-after > 8<<20 || b.MappedBytes() < 24<<20 {
		t.Errorf("resident %d more with 32 strings in %d mapped", few-after, b.MappedBytes())
	}
}
