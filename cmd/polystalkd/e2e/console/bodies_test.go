package console

import (
	"fmt"
	"strings"
	"testing"
)

// TestBodiesThatAreMeantToHang: a length that leads back, and lists in lists in lists.
func TestBodiesThatAreMeantToHang(t *testing.T) {
	long(t)
	s := serve(t)
	back := s.put("evil", `a:1000000000:{s:0:"";s:-8:"`, "")
	deep := s.put("evil", strings.Repeat("[", 30000)+strings.Repeat("]", 30000), "")
	good := s.put("evil", `a:2:{s:3:"key";i:5;i:1;a:0:{}}`, "")
	b := open(t, s.base, "job/"+back, look{})
	b.reads("a:1000000000")
	b.visit("job/" + deep)
	b.press("Show all 60\u202f000 bytes")
	b.shows("all of it", "document.querySelector('pre').innerText.replace(/\\s/g, '').length === 60000")
	b.visit("job/" + good)
	b.reads(`"key" => 5`)
	b.quiet()
}

// TestEditKeepsWhatIsNotChanged: the form has the current body, and its line ends survive.
func TestEditKeepsWhatIsNotChanged(t *testing.T) {
	long(t)
	s := serve(t)
	id := s.put("mail", "one", "")
	b := open(t, s.base, "job/"+id, look{})
	b.reads("one")
	edit := func() {
		t.Helper()
		b.press("Edit")
		b.shows("the form", "document.querySelector('dialog[open] input')")
	}
	s.api("PATCH", "jobs/"+id, `{"body": "two"}`)
	edit()
	if got := b.eval("document.querySelector('dialog textarea').value"); got != "two" {
		t.Errorf("the form has %q", got)
	}
	b.press("Cancel")
	b.reads("two")

	for _, text := range []string{"1\r\n2\r\n3", "1\n2\n3"} {
		id := s.put("mail", text, "")
		b.visit("job/" + id)
		b.reads("Job " + id)
		edit()
		b.eval("document.querySelector('dialog textarea').focus()")
		b.keys("0")
		b.press("Save")
		b.reads("Job " + id + " was changed")
		got := s.api("GET", "jobs/"+id+"?body=full", "")
		expect(t, strings.Contains(got, fmt.Sprintf(`"body":%q`, "0"+text)) || strings.Contains(got, fmt.Sprintf(`"body":%q`, text+"0")), "%q became %s", text, got)
	}
	for _, text := range []string{"1\r\n2\n3", "1\r2"} {
		id := s.put("mail", text, "")
		b.visit("job/" + id)
		b.reads("Job " + id)
		edit()
		b.reads("polystalk edit " + id + " --editor")
		expect(t, b.eval("document.querySelector('dialog textarea')") == "null", "%q can be changed", text)
		b.press("Cancel")
	}
	b.quiet()
}
