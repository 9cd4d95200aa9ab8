package console

import "testing"

// TestUnknownPages: the names of all objects' members are names of no page.
func TestUnknownPages(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	s := serve(t)
	s.put("mail", "one", "")
	for _, page := range []string{"constructor", "__proto__", "?span=constructor", "toString/1"} {
		b := open(t, s.base, page, look{})
		b.reads("Needs a look")
		b.drawn()
		b.quiet()
	}
}
