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
