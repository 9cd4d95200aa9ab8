package proc

import (
	"strings"
	"testing"
)

func TestTailKeepsTheEnd(t *testing.T) {
	var k Tail
	if k.String() != "(none)" {
		t.Errorf("empty: %q", k.String())
	}
	for range 500 {
		k.Write([]byte("some line\n"))
	}
	k.Write([]byte("the last words"))
	if s := k.String(); len(s) > tailLen || !strings.HasSuffix(s, "the last words") {
		t.Errorf("%d bytes: %q", len(s), s)
	}
}
