package console

import "testing"

// TestUnknownPages: the names of all objects' members are names of no page.
func TestUnknownPages(t *testing.T) {
	long(t)
	s := serve(t)
	s.put("mail", "one", "")
	for _, page := range []string{"constructor", "__proto__", "?span=constructor", "toString/1"} {
		b := open(t, s.base, page, look{})
		b.reads("Attention")
		b.drawn()
		b.quiet()
	}
}

// TestTubesWithNamesOfPathsCanBeOpened: a browser resolves dots in a path, and the server's
// router a slash.
func TestTubesWithNamesOfPathsCanBeOpened(t *testing.T) {
	long(t)
	s := serve(t)
	for _, path := range []string{"%2E", "%2E%2E", "%2F"} {
		s.api("POST", "tubes/-/jobs?tube="+path, `{"body": "the body in `+path+`"}`)
		b := open(t, s.base, "tube/"+path, look{})
		b.reads("the body in " + path)
		b.reads("Put a job")
		b.quiet()
	}
}
