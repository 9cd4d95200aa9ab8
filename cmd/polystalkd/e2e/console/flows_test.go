package console

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

func digest(token string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(token))) }

// TestByKeyboardAlone: put, find, kick, edit, move, delete and flush without a mouse.
func TestByKeyboardAlone(t *testing.T) {
	long(t)
	s := serve(t)
	s.fill()
	b := open(t, s.base, "tubes", look{})
	b.reads("mail")

	// Keys find the tube and open it.
	b.keys("/", "m", "a", "i", "l")
	b.shows("one tube", "document.querySelectorAll('tbody tr[aria-rowindex]').length === 1 && location.hash.includes('match=mail')")
	b.keys(kb.Enter)
	b.openRow("#/tube/mail")

	b.press("Put a job")
	b.answer("hello from the keyboard", kb.Tab, "7")
	b.press("Put")
	b.reads("was put")

	b.press("buried 1")
	b.reads("it cannot be done")
	b.press(s.job)
	b.reads("time to run")
	b.press("Kick")
	b.reads("Job " + s.job + " is ready")
	b.shows("the job as it is now", "document.querySelector('main .state').innerText.trim() === 'ready'")
	b.press("Edit")
	b.shows("the form", "document.querySelector('dialog[open] input')")
	b.eval("document.querySelector('dialog[open] input').select()")
	b.keys("9")
	b.press("Save")
	b.reads("was changed")
	got := s.api("GET", "jobs/"+s.job, "")
	expect(t, strings.Contains(got, `"pri":9`), "the job is %s", got)
	b.press("Move …")
	b.answer("elsewhere", kb.Enter)
	b.reads("was moved to elsewhere")
	b.press("Delete …")
	b.reads("Deleted jobs cannot be restored")
	b.press("Delete")
	b.reads("was deleted")

	// A flush shows the number of jobs, and asks for the tube's name.
	b.visit("tube/mail")
	b.press("Flush …")
	b.press("Count")
	b.reads("21 jobs")
	expect(t, b.eval("document.querySelector('dialog[open] button[type=submit]').disabled") == "true", "a flush goes on without the tube's name")
	b.answer("mail")
	b.press("Flush 21")
	b.reads("21 jobs flushed from mail")

	// Escape closes a dialog, and the focus returns to its old place.
	b.visit("tube/a%2Fb%20c")
	b.press("Put a job")
	b.answer(kb.Escape)
	b.shows("the button again", "document.activeElement.innerText === 'Put a job'")
	b.keys("g", "s")
	b.reads("gearman-listen")
	b.quiet(notThere) // for the tube after its last job was deleted
}

// TestAdminByKeyboardAlone: actions that need more rights, and actions on selected rows.
func TestAdminByKeyboardAlone(t *testing.T) {
	long(t)
	s := serve(t, "--access-file", accessFile(t))
	s.fill()
	b := open(t, s.base, "", look{})
	b.login(adminToken)

	b.visit("tube/mail")
	b.press("Pause …")
	b.answer(kb.Enter)
	b.reads("mail is paused")
	b.press("Resume")
	b.reads("mail is resumed")

	b.keys("jxjx")
	b.reads("2 selected")
	b.press("Delete …")
	b.reads("Delete 2 jobs?")
	b.press("Delete 2")
	b.reads("2 jobs deleted")

	b.visit("job/" + s.job)
	b.reads("time to run")
	b.press("Copy …")
	b.answer("elsewhere", kb.Enter)
	b.reads("was copied to elsewhere")

	b.visit("connections")
	b.shows("the client of Gearman", "document.querySelectorAll('tbody tr[aria-rowindex]').length === 1")
	b.keys("j", kb.Enter)
	b.press("Close …")
	b.reads("Close this connection?")
	b.press("Close")
	b.reads("The connection was closed")

	b.visit("server")
	b.press("Drain …")
	b.reads("Refuse new jobs?")
	b.press("Drain")
	b.reads("The server is draining")
	b.press("End the drain")
	b.reads("New jobs are accepted again")
	b.press("Reload the configuration")
	b.reads("The configuration has not changed")

	b.visit("operations?show=audit")
	b.reads("/api/v1/drain")
	b.press("Log out")
	b.shows("the field for the token", "document.activeElement.type === 'password'")
	b.keys("not a token\r")
	b.shows("that it is none", "document.querySelector('.trouble')")
	b.quiet(notKnown, notThere) // before the login; for the closed connection
}

// TestFirstSteps: an empty server shows a command that puts a job, with its own address. The form
// puts a job that is not urgent. A dialog is closed with its page.
func TestFirstSteps(t *testing.T) {
	long(t)
	s := serve(t)
	b := open(t, s.base, "", look{})
	b.reads("polystalk --server " + s.base + " put mail --body hello")
	b.press("put a first job")
	b.shows("the tube", "location.hash === '#/tube/default'")

	b.press("Put a job")
	b.answer("first")
	b.shows("the form", "document.querySelector('dialog[open] textarea').value === 'first'")
	b.eval("history.back()")
	b.shows("the overview, and no dialog", "location.hash !== '#/tube/default' && !document.querySelector('dialog')")
	b.visit("tube/default")
	b.press("Put a job")
	b.answer("first")
	b.press("Put")
	b.reads("was put")
	got := s.api("GET", "jobs/1", "")
	expect(t, strings.Contains(got, `"pri":1024`), "the job is %s", got)
	b.quiet()
}

// TestManyAreCountedFirst: an action on all jobs that match changes only jobs that were counted, and
// begins after the count is complete.
func TestManyAreCountedFirst(t *testing.T) {
	long(t)
	s := serve(t)
	for i := range 130 {
		s.put("mail", fmt.Sprintf("job %d", i), "")
	}
	b := open(t, s.base, "tube/mail", look{})
	b.press("Bury")
	b.reads("Bury 130 jobs?")
	s.put("mail", "late", "")
	b.answer("mail")
	b.press("Bury 130")
	b.reads("130 jobs buried")
	got := s.api("GET", "tubes/mail", "")
	expect(t, strings.Contains(got, `"ready":1,`) && strings.Contains(got, `"buried":130`), "the tube is %s", got)

	// A cancelled count must not begin an action.
	b.reads("All that match")
	b.eval(`((ask) => { window.fetch = (url, init) => init.body && init.body.includes('"dry_run":true') ? Promise.resolve(Response.json({
		id: '1', state: 'cancelled', matched: 1, done: 0, skipped: {}, as_of: '2026-01-31T12:00:00Z', problem: { title: 'The operation was cancelled', detail: 'somebody else', remedy: 'again' } })) : ask(url, init); })(fetch)`)
	b.press("Delete …")
	b.shows("a question or an answer", "document.querySelector('dialog[open], .notice')")
	b.reads("The operation was cancelled: somebody else")
	b.shows("no question", "!document.querySelector('dialog[open]')")
	b.quiet()
}

// TestBodiesAreText: nothing in a body is executed.
func TestBodiesAreText(t *testing.T) {
	long(t)
	s := serve(t, "-z", "4000000")
	evil := `<img src=x onerror="document.title='run'"><script>document.title='run'</script>`
	ids := []string{s.put("evil", evil, ""), s.put("evil", `{"html": "</pre><script>document.title='run'</script>", "n": 123456789012345678901234567890.10}`, "")}
	s.submit("<script>document.title='run'</script>", "x")
	b := open(t, s.base, "tubes", look{})
	b.reads("<script>document.title='run'</script>")
	b.visit("tube/evil")
	b.reads("onerror")
	b.visit("job/" + ids[0])
	b.reads(evil)
	b.visit("job/" + ids[1])
	b.reads("123456789012345678901234567890.10")

	// A large body is folded, and of an even larger one only the beginning is shown.
	long := s.put("evil", strings.Repeat("<b>long</b> ", 1000), "")
	b.visit("job/" + long)
	b.press("Show all 12\u202f000 bytes")
	b.shows("all of it", "document.querySelector('pre').innerText.length === 12000 && !document.querySelector('pre b')")
	huge := s.put("evil", strings.Repeat("x", 3<<20), "")
	b.visit("job/" + huge)
	b.reads("bytes: download it to see more")
	b.shows("the beginning alone", "document.querySelector('pre').innerText.length < 10000")

	// A failure is shown next to the form that caused it.
	b.visit("tube/evil")
	b.press("Put a job")
	b.answer("<script>", kb.Tab, "1")
	b.eval("document.querySelector('dialog textarea').focus()")
	b.eval("(HTMLTextAreaElement.prototype.__lookupSetter__('value').call(document.querySelector('dialog textarea'), 'y'.repeat(5 << 20)), document.querySelector('dialog textarea').dispatchEvent(new Event('input', {bubbles: true})))")
	b.press("Put")
	b.shows("the problem in the dialog", "document.querySelector('dialog .trouble')?.innerText.includes('Request')")
	b.keys(kb.Escape)
	title := b.eval("document.title")
	expect(t, !strings.Contains(title, "run"), "a body was run")
	b.quiet("status of 413")
}

// TestBodiesThatAreMeantToHang the page: a negative length, and deeply nested lists.
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

// TestSelectionIsNeverAll: selected rows that have left the list stay selected, so that an action
// never changes all jobs that match instead.
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
	b.eval("dispatchEvent(new Event('polystalk-refresh'))") // as after a reconnect of the stream
	b.shows("that it is gone", "document.querySelector('tr.selected.gone')")
	b.press("Delete …")
	b.shows("a question or an answer", "document.querySelector('dialog[open], .notice')")
	text := b.text()
	expect(t, strings.Contains(text, "1 selected") && strings.Contains(text, "No job matches now"), "the page says %q", text)
	b.quiet()
}

// TestNamesOfPagesAndTubes: the names of all objects' members are names of no page. A browser resolves dots
// in the path of a tube, and the server's router a slash.
func TestNamesOfPagesAndTubes(t *testing.T) {
	long(t)
	s := serve(t)
	b := open(t, s.base, "tubes", look{})
	for _, page := range []string{"constructor", "__proto__", "?span=constructor", "toString/1"} {
		b.visit("tubes")
		b.shows("all tubes", "document.querySelector('h1')?.innerText === 'Tubes'")
		b.visit(page)
		b.reads("Attention")
		b.drawn()
	}
	for _, path := range []string{"%2E", "%2E%2E", "%2F"} {
		s.api("POST", "tubes/-/jobs?tube="+path, `{"body": "the body in `+path+`"}`)
		b.visit("tube/" + path)
		b.reads("the body in " + path)
		b.reads("Put a job")
	}
	b.quiet()
}
