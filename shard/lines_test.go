package shard

import (
	"testing"
	"unsafe"
)

// TestNothingSharesCacheLines: a Shard is whole pairs of lines, as the tests of package
// core say of a Core.
func TestNothingSharesCacheLines(t *testing.T) {
	if size := unsafe.Sizeof(Shard{}); size != 256 && size != 512 {
		t.Errorf("Shard has %d bytes, want 256 or 512: change the padding at its end", size)
	}
	if at := unsafe.Offsetof(Shard{}.Index); at != 128 {
		t.Errorf("the fields behind the ownership word start at %d, want 128", at)
	}
}
