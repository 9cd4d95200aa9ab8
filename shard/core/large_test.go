package core

import "testing"

func TestLargeBodiesAreEqualInWhateverPieces(t *testing.T) {
	a := Large{[]byte("abc"), nil, []byte("de")}
	for _, c := range []struct {
		body Large
		want bool
	}{
		{Large{[]byte("abcde")}, true},
		{Large{[]byte("a"), []byte("bcd"), []byte("e"), {}}, true},
		{Large{[]byte("abcd")}, false},
		{Large{[]byte("abcdef")}, false},
		{Large{[]byte("ab"), []byte("xde")}, false},
		{nil, false},
	} {
		if got := a.equal(c.body); got != c.want {
			t.Errorf("%q is %q: %v", a, c.body, got)
		}
		if got := c.body.equal(a); got != c.want {
			t.Errorf("%q is %q: %v", c.body, a, got)
		}
	}
}

func TestPlacesOfLargeBodiesAreUsedAgain(t *testing.T) {
	var b largeBodies
	x, y := b.Put(Large{[]byte("x")}), b.Put(Large{[]byte("y")})
	if got := b.Remove(x); string(got.Append(nil)) != "x" {
		t.Errorf("removed %q", got)
	}
	b.Check(map[uint32]bool{y: true}, t.Errorf)
	if z := b.Put(Large{[]byte("z")}); z != x || string(b.At(y).Append(nil)) != "y" {
		t.Errorf("places %d and %d, and at the second %q", x, z, b.At(y))
	}
	if n := b.Number(y); n == 0 || n == b.Number(x) || b.Number(x) != 3 {
		t.Errorf("the third body is number %d, the second %d", b.Number(x), n)
	}
	b.Check(map[uint32]bool{x: true, y: true}, t.Errorf)
	failed := false
	b.Check(map[uint32]bool{x: true}, func(string, ...any) { failed = true })
	if !failed {
		t.Error("a place that is neither free nor used is not told of")
	}
}
