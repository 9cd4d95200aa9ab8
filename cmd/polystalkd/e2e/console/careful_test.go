package console

import (
	"strings"
	"testing"
)

// TestSelectionIsNeverAll: rows that were selected and are no more in the list are still what is
// selected. What is done then is not done to all that match.
func TestSelectionIsNeverAll(t *testing.T) {
	long(t)
	s := serve(t)
	id := s.put("mail", "first", "")
	s.put("mail", "second", "")
	s.put("mail", "third", "")
	b := open(t, s.base, "tube/mail", look{})
	b.reads("third")
	b.keys("jx")
	b.reads("1 selected")
	s.api("DELETE", "jobs/"+id, "")
	b.eval("dispatchEvent(new Event('polystalk-refresh'))") // as when the stream comes back
	b.shows("that it is gone", "document.querySelector('tr.selected.gone')")
	b.press("Delete …")
	b.shows("a question or an answer", "document.querySelector('dialog[open], .notice')")
	text := b.text()
	expect(t, strings.Contains(text, "1 selected") && strings.Contains(text, "No job matches now"), "the page says %q", text)
	b.quiet()
}

// TestCountThatWasBrokenOff: what was counted until then is not what would be done.
func TestCountThatWasBrokenOff(t *testing.T) {
	long(t)
	s := serve(t)
	s.put("mail", "one", "")
	b := open(t, s.base, "tube/mail", look{})
	b.reads("All that match")
	b.eval(`((ask) => { window.fetch = (url, init) => init.body && init.body.includes('"dry_run":true') ? Promise.resolve(Response.json({
		id: '1', state: 'cancelled', matched: 1, done: 0, skipped: {}, as_of: '2026-01-31T12:00:00Z', problem: { title: 'The operation was cancelled', detail: 'somebody else', remedy: 'again' } })) : ask(url, init); })(fetch)`)
	b.press("Delete …")
	b.shows("a question or an answer", "document.querySelector('dialog[open], .notice')")
	b.reads("The operation was cancelled: somebody else")
	b.shows("no question", "!document.querySelector('dialog[open]')")
	b.quiet()
}
