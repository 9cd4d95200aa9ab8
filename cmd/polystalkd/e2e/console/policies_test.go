package console

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

// field types into a field of the form of a policy.
func (b *tab) field(name, text string) {
	b.t.Helper()
	b.shows("the field "+name, fmt.Sprintf("document.querySelector('dialog [name=%s]')", name))
	b.eval(fmt.Sprintf("(f => { f.focus(); f.select(); })(document.querySelector('dialog [name=%s]'))", name))
	b.keys(text)
}

// TestPoliciesByKeyboardAlone: make, change and remove a policy without a mouse. Nothing changes before the
// user has seen how many jobs the change would end.
func TestPoliciesByKeyboardAlone(t *testing.T) {
	long(t)
	s := serve(t, "--access-file", accessFile(t))
	for i := range 15 {
		s.put("mail", fmt.Sprintf("job %d", i), "")
	}
	b := open(t, s.base, "", look{})
	b.login(adminToken)
	b.keys("g", "l")
	b.reads("No policy yet")

	// A wrong policy, and one for which the user cancels, change nothing.
	b.press("New policy …")
	b.answer("ma*")
	b.field("burst", "5")
	b.press("Check …")
	b.reads("there is no per_second")
	b.field("per_second", "0.25")
	b.field("note", "<b>slow</b> & steady")
	b.press("Check …")
	b.reads("This would delete no job now. The policy applies to 1 tube.")
	b.keys(kb.Escape) // leaves the form open
	expect(t, s.api("GET", "policies", "") == "{\"policies\":[]}\n", "there are policies before they are confirmed: %s", s.api("GET", "policies", ""))
	b.press("Check …")
	b.press("Add")
	b.reads("The policy ma* was added")
	b.reads("per second 0.25 · burst 5")

	b.visit("tube/mail")
	b.reads("At most 0.25 reserved per second, 5 at once")
	b.reads("<b>slow</b> & steady")
	b.reads("held back by")

	// A policy of this tube begins with the options of the other one.
	b.press("Policy for this tube …")
	b.field("max_jobs", "3")
	b.eval("document.querySelector('dialog [name=full]').focus()")
	b.keys("d") // drop-oldest
	b.press("Check …")
	b.reads("This would delete 12 jobs now")
	got := s.api("GET", "tubes/mail", "")
	expect(t, strings.Contains(got, `"ready":15`), "jobs are deleted before the user confirms: %s", got)
	b.press("Add, delete 12 jobs")
	b.reads("Policy of this tube")
	b.reads("At most 3 waiting jobs, then a new job replaces the oldest ready one")
	b.shows("what it did", "[...document.querySelectorAll('.fact')].some(f => f.innerText === 'dropped\\n12')")
	got = s.api("GET", "policies", "")
	expect(t, strings.Contains(got, `"match":"mail","note":"\u003cb\u003eslow\u003c/b\u003e \u0026 steady"`) || strings.Contains(got, `"match":"mail","note":"<b>slow</b> & steady"`), "the policies are %s", got)

	// Another user changes a policy meanwhile: the form does not overwrite it.
	b.press("Edit policy …")
	b.field("max_jobs", "2")
	s.api("PUT", "policies/mail", `{"running": 0, "note": "stopped"}`)
	b.press("Check …")
	b.reads("have another tag")
	b.press("Cancel")
	b.reads("stopped")
	b.reads("Workers get no job")
	b.reads("reserved jobs, 0 of 0")

	// A new policy does not overwrite one either.
	b.visit("policies")
	b.press("New policy …")
	b.answer("mail")
	b.press("Check …")
	b.reads("There is a policy for these tubes")
	b.keys(kb.Escape)

	// Without its policy a tube follows the one with the next shorter match.
	s.api("PUT", "policies/ma*", `{"max_jobs": 1, "full": "drop-oldest"}`)
	b.visit("policies/mail")
	b.reads("stopped")
	b.press("Remove …")
	b.reads("This would delete 2 jobs now")
	b.press("Remove, delete 2 jobs")
	b.reads("The policy mail was removed")
	b.openRow("#/policies/ma*")
	b.press("1")
	b.shows("its tubes", "location.hash === '#/tubes?match=ma*'")
	b.quiet(notKnown, "status of 412", "status of 422") // before the login
}

// TestWhyAJobIsBuried shows for each reason.
func TestWhyAJobIsBuried(t *testing.T) {
	long(t)
	file := accessFile(t)
	text, err := os.ReadFile(file)
	noErr(t, err)
	noErr(t, os.WriteFile(file, []byte(strings.Replace(string(text), "put =", "work = [\"*\"]\nput =", 1)), 0o600))
	s := serve(t, "--access-file", file)
	s.api("PUT", "policies/try", `{"attempts": 1}`)
	s.api("PUT", "policies/old", `{"ttl_seconds": 1, "expired": "bury"}`)
	tried, worked := s.put("try", "x", ""), s.put("work", "x", "")
	old, operated := s.put("old", "x", ""), s.put("operate", "x", "")
	s.api("POST", "jobs/"+operated+"/bury", "")
	c := s.Client()
	daemon.Expect(t, c, "watch try\r\n", "WATCHING 2\r\n")
	daemon.Expect(t, c, "reserve\r\n", "RESERVED "+tried+" 1\r\nx\r\n")
	daemon.Expect(t, c, "release "+tried+" 0 0\r\n", "RELEASED\r\n")
	daemon.Expect(t, c, "watch work\r\n", "WATCHING 3\r\n")
	daemon.Expect(t, c, "reserve\r\n", "RESERVED "+worked+" 1\r\nx\r\n")
	daemon.Expect(t, c, "bury "+worked+" 0\r\n", "BURIED\r\n")

	b := open(t, s.base, "", look{width: 360})
	b.press("Log in")
	b.shows("the login", "document.activeElement.type === 'password'")
	b.keys(adminToken, "\r")
	b.reads("Log out")
	b.visit("buried")
	for id, why := range map[string]string{tried: "attempts", worked: "worker", old: "expiry", operated: "operator"} {
		b.shows("that "+why+" buried "+id, fmt.Sprintf("[...document.querySelectorAll('tbody tr')].some(r => r.querySelector('a')?.innerText === %q && r.querySelector('[data-column=why]').innerText === %q)", id, why))
	}
	b.visit("job/" + old)
	b.shows("the reason", "[...document.querySelectorAll('.fact')].some(f => f.innerText === 'buried by\\nexpiry')")
	b.quiet(notKnown)
}

// TestManyPolicies: the document has few rows, and the filter finds a policy by its note.
func TestManyPolicies(t *testing.T) {
	long(t)
	s := serve(t, "--access-file", accessFile(t))
	all := make([]string, 1000)
	for i := range all {
		all[i] = fmt.Sprintf(`{"match": "t%03d*", "attempts": 3}`, i)
	}
	all[999] = `{"match": "a%2Fb%20c*", "note": "needle", "ttl_seconds": 60}`
	s.api("PUT", "policies", `{"policies": [`+strings.Join(all, ",")+`]}`)
	b := open(t, s.base, "", look{})
	b.login(adminToken)
	b.visit("policies")
	b.reads("1\u202f000 policies")
	expect(t, b.rows() >= 10, "%d rows in the document", b.rows())
	b.keys("/")
	b.keys("needle", kb.Enter)
	b.shows("one policy", "document.querySelectorAll('tbody tr[aria-rowindex]').length === 1")
	b.keys("j", kb.Enter)
	b.reads("A job that has been ready for 1\u202fm is deleted")
	b.press("Edit …")
	b.field("ttl_seconds", "120")
	b.press("Check …")
	b.press("Change")
	b.reads("ready for 2\u202fm")
	b.quiet(notKnown)
}
