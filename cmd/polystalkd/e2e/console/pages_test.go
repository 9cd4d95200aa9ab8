package console

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

const adminToken = "console-admin-0123456789"

// A server is a polystalkd with a console, and a client of it.
type server struct {
	*daemon.Server
	t      *testing.T
	base   string // of the console
	tokens bool   // clients need a token
	job    string // id of a buried job

	gearman net.Conn // nil until something is submitted
}

// serve starts a server with jobs in every state.
func serve(t *testing.T, args ...string) *server {
	t.Helper()
	args = append([]string{"-b", t.TempDir(), "--http", "127.0.0.1:0", "--gearman-listen", "127.0.0.1:0"}, args...)
	s := &server{Server: daemon.Serve(t, args...), t: t}
	s.tokens = slices.Contains(args, "--access-file")
	line := s.WaitLog("serving HTTP")
	require(t, line != nil, "HTTP is not served")
	s.base = "http://" + line["listen"].(string)
	return s
}

// api sends a request to the API, and returns the answer.
func (s *server) api(method, path, body string) string {
	s.t.Helper()
	r, err := http.NewRequest(method, s.base+"/api/v1/"+path, strings.NewReader(body))
	noErr(s.t, err)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if s.tokens {
		r.Header.Set("Authorization", "Bearer "+adminToken)
	}
	resp, err := http.DefaultClient.Do(r)
	noErr(s.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require(s.t, err == nil && resp.StatusCode < 300, "%s %s: %d %s %v", method, path, resp.StatusCode, b, err)
	return string(b)
}

// put puts a job and returns its id.
func (s *server) put(tube, body string, more string) string {
	s.t.Helper()
	got := s.api("POST", "tubes/"+tube+"/jobs", fmt.Sprintf(`{"body": %q%s}`, body, more))
	return strings.Split(got, `"`)[3]
}

// submit submits a background job for a function as a Gearman client: the name of a function may
// have any bytes.
func (s *server) submit(function, body string) {
	s.t.Helper()
	if s.gearman == nil {
		listen, ok := s.WaitLog("serving Gearman")["listen"].([]any)
		require(s.t, ok, "Gearman is not served")
		conn, err := net.Dial("tcp", listen[0].(string))
		noErr(s.t, err)
		s.t.Cleanup(func() { conn.Close() })
		conn.SetDeadline(time.Now().Add(patience))
		s.gearman = conn
	}
	const submitBackground = 18
	args := function + "\x00\x00" + body // no unique id
	head := binary.BigEndian.AppendUint32([]byte("\x00REQ"), submitBackground)
	head = binary.BigEndian.AppendUint32(head, uint32(len(args)))
	if _, err := s.gearman.Write(append(head, args...)); err != nil {
		s.t.Fatal(err)
	}
	var reply [12]byte
	if _, err := io.ReadFull(s.gearman, reply[:]); err != nil {
		s.t.Fatal(err)
	}
	_, err := io.CopyN(io.Discard, s.gearman, int64(binary.BigEndian.Uint32(reply[8:])))
	noErr(s.t, err)
}

// longName is a tube's name of the greatest length, without a place to break the line.
var longName = strings.Repeat("N", 200)

// fill makes jobs in all states except reserved, in tubes with unusual names.
func (s *server) fill() {
	s.t.Helper()
	for i := range 20 {
		s.put("mail", fmt.Sprintf(`{"to": "user%d@example.org", "number": 12345678901234567890}`, i), "")
		s.submit("a/b c", "a:1:{s:1:\"a\";i:5;}")
		s.submit("bytes\xFE\xFF", "<script>alert(1)</script>")
	}
	s.job = s.put("mail", "it cannot be done", "")
	s.api("POST", "jobs/"+s.job+"/bury", "")
	s.api("PUT", "tubes/a%2Fb%20c/pause", `{"seconds": 600}`)
	s.put(longName, strings.Repeat("x", 5000), "")
	if s.tokens {
		s.api("PUT", "policies/mail", `{"attempts": 3, "backoff_seconds": 2, "backoff_max_seconds": 3600, "ttl_seconds": 86400, "max_jobs": 100000, "max_bytes": 10000000,
			"full": "drop-oldest", "running": 10, "per_second": 2.5, "burst": 20, "buried_ttl_seconds": 604800, "max_buried": 1000, "note": "The provider allows 10 mails at a time"}`)
		s.api("PUT", "policies/bytes%FE*", `{"running": 0}`)
		s.api("PUT", "policies/"+longName[:199]+"*", `{"attempts": 3, "note": "`+longName[:128]+`"}`)
	}
}

// accessFile writes an access file. Clients of Gearman may put jobs without a token.
func accessFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "access.toml")
	var b strings.Builder
	b.WriteString("[identity.default]\nput = [\"*\"]\n")
	for _, l := range [][3]string{
		{"reader", readToken, `role = "read"`}, {"boss", adminToken, `role = "admin"`},
		{"mailer", mailToken, "look = [\"mail\"]\nput = [\"mail\"]\n"},
	} {
		fmt.Fprintf(&b, "[identity.%s]\ntokens = [\"sha256:%s\"]\n%s\n", l[0], digest(l[1]), l[2])
	}
	noErr(t, os.WriteFile(path, []byte(b.String()), 0o600))
	return path
}

const (
	readToken = "console-read-0123456789"
	mailToken = "console-mail-0123456789"
)

// pages are all pages, each with a text that it shows once it is complete.
func (s *server) pages() map[string]string {
	return map[string]string{
		"overview": "Attention", "tubes": `bytes\xFE\xFF`, "tube/mail": "using / watching / waiting", "tube/mail?state=buried": "using / watching / waiting",
		"tube/bytes%FE%FF": `bytes\xFE\xFF`, "tube/nobody": "This tube does not exist", "tube/" + longName: longName, "job/" + s.job: "time to run",
		"policies": "per second 2.5", "policies/mail": "buried after 3 failed attempts", "policies/" + longName[:199] + "*": "buried after 3 failed attempts",
		"buried": "all tubes", "connections": "with reserved jobs", "operations": "No bulk operation since the server started", "server": "gearman-listen",
	}
}

// TestPages: all pages, light, dark, narrow, wide and at 200 %, for operators and for readers, have
// no accessibility problems, and neither a page nor a table of a page is wider than its place.
func TestPages(t *testing.T) {
	long(t)
	axe := axeSource(t)
	s := serve(t, "--access-file", accessFile(t))
	s.fill()
	for name, l := range map[string]look{"light": {}, "dark": {dark: true}, "narrow": {width: 360}, "wide": {width: 1920}, "zoomed": {zoomed: true}} {
		for role, token := range map[string]string{"admin": adminToken, "read": readToken} {
			if role == "read" && name != "light" {
				continue // the same pages with fewer buttons
			}
			usual := name != "narrow" && name != "wide" // the others differ only in columns
			t.Run(name+"/"+role, func(t *testing.T) {
				b := open(t, s.base, "", l)
				b.shows("the login", "document.activeElement.type === 'password'")
				b.axe(axe)
				b.login(token)
				for page, text := range s.pages() {
					b.visit(page)
					b.shows("the page "+page, fmt.Sprintf("document.querySelector('main').innerText.includes(%q)", text))
					b.drawn()
					if usual {
						b.axe(axe)
					}
					wide := b.eval("document.documentElement.scrollWidth - innerWidth")
					expect(t, wide == "0", "page %s is wider than the window by %s pixels", page, wide)
					wide = b.eval("[...document.querySelectorAll('.table, .tabs')].filter(x => x.scrollWidth > x.clientWidth).map(x => x.ariaLabel)")
					expect(t, wide == "" || name == "zoomed", "page %s scrolls sideways in: %s", page, wide)
					b.picture(name + "-" + role + "-" + page)
					require(t, !t.Failed(), "page %s", page)
				}
				if role == "admin" && usual {
					b.visit("tube/mail")
					for _, dialog := range []string{"Put a job", "Pause …", "Flush …", "Edit policy …", "?"} {
						b.press(dialog)
						b.shows("a dialog", "document.querySelector('dialog[open]')")
						b.axe(axe)
						b.picture(name + "-dialog-" + strings.Trim(dialog, " …?"))
						b.keys(kb.Escape)
						b.shows("no dialog", "!document.querySelector('dialog')")
					}
				}
				b.quiet(notKnown, notThere) // before the login, and for a tube that does not exist
				if role == "read" {
					for page, text := range s.pages() {
						b.visit(page)
						b.shows("the page "+page, fmt.Sprintf("document.querySelector('main').innerText.includes(%q)", text))
						// The remaining controls only change the view.
						names := b.eval("[...document.querySelectorAll('main button, main input[type=checkbox]')].filter(x => !x.closest('.menu, thead')).map(x => x.innerText || x.parentElement.innerText).filter(x => !/^(1 h|24 h|table|copy.*|with reserved jobs)$/.test(x.trim()))")
						expect(t, names == "", "page %s has buttons that cannot apply: %s", page, names)
					}
				}
			})
		}
	}
}

// login logs in with a token on the login page.
func (b *tab) login(token string) {
	b.t.Helper()
	b.shows("the field for the token", "document.activeElement.type === 'password'")
	b.keys(token, "\r")
	b.reads("Attention")
}

// TestPageHidesWhatTheIdentityMayNotDo: an identity of one tube sees only that tube, and only the
// buttons and pages that it may use.
func TestPageHidesWhatTheIdentityMayNotDo(t *testing.T) {
	long(t)
	s := serve(t, "--access-file", accessFile(t))
	s.fill()
	b := open(t, s.base, "", look{})
	b.shows("the login, although the default identity may put jobs", "document.activeElement.type === 'password'")
	b.keys(mailToken, "\r")
	b.reads("1 tube")
	pages := b.eval("[...document.querySelectorAll('nav a')].map(x => x.innerText).join()")
	expect(t, pages == "Tubes,Buried,Operations", "it shows the pages %s", pages)
	expect(t, !strings.Contains(b.text(), "bytes"), "it shows another tube: %s", b.text())
	b.visit("tube/mail")
	b.reads("Put a job")
	buttons := b.eval("[...document.querySelectorAll('main .line button')].map(x => x.innerText).join()")
	expect(t, strings.HasPrefix(buttons, "Put a job") && !strings.Contains(buttons, "Flush") && !strings.Contains(buttons, "Pause"), "it has the buttons %s", buttons)
	text := b.text()
	expect(t, strings.Contains(text, "held back by") && !strings.Contains(text, "Edit policy") && !strings.Contains(text, "The provider"), "of the policy it shows: %s", text)
	b.visit("server")
	b.reads("1 tube") // the first page that it may see
	b.visit("job/" + s.job)
	b.reads("You may not see job bodies")
	expect(t, !strings.Contains(b.text(), "Delete"), "it offers to delete a job")
	b.quiet(notThere) // a history that is not begun
	expect(t, !strings.Contains(s.api("GET", "denials", ""), "mailer"), "it asks for what the identity may not do: %s", s.api("GET", "denials", ""))
}

// jobs is smaller than a real queue, since many other tests run at the same time as TestManyJobs.
var jobs = flag.Int("jobs", 20_000, "how many jobs a page goes through")

// fillMany puts many jobs on another connection, pipelined. tube and body return the tube and the
// body of job i.
func fillMany(t *testing.T, addr string, n int, tube, body func(i int) string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	noErr(t, err)
	defer conn.Close()
	r := bufio.NewReader(conn)
	const batch = 1000
	for from := 0; from < n; from += batch {
		var out bytes.Buffer
		to := min(from+batch, n)
		for i := from; i < to; i++ {
			b := body(i)
			fmt.Fprintf(&out, "use %s\r\nput 0 0 60 %d\r\n%s\r\n", tube(i), len(b), b)
		}
		conn.SetDeadline(time.Now().Add(patience))
		if _, err := conn.Write(out.Bytes()); err != nil {
			t.Fatal(err)
		}
		for i := from; i < to; i++ {
			for _, want := range []string{"USING ", "INSERTED "} {
				line, err := r.ReadString('\n')
				require(t, err == nil && strings.HasPrefix(line, want), "%q, %v", line, err)
			}
		}
	}
}

// rows returns the number of table rows in the document, which must be small for any list.
func (b *tab) rows() int {
	b.t.Helper()
	rows, err := strconv.Atoi(b.eval("document.querySelectorAll('tbody tr[aria-rowindex]').length"))
	noErr(b.t, err)
	require(b.t, rows <= 60, "%d rows in the document", rows)
	return rows
}

// TestManyTubes: the document has few rows, and the server sorts, filters and searches.
func TestManyTubes(t *testing.T) {
	long(t)
	s := serve(t)
	fillMany(t, s.Listen[0], 10_000, func(i int) string { return fmt.Sprintf("tube-%05d", i) }, func(i int) string { return strings.Repeat("x", 1+i%7) })
	b := open(t, s.base, "tubes", look{})
	b.reads("10\u202f001 tubes")
	expect(t, b.rows() >= 10, "%d rows in the document", b.rows())
	b.shows("how many there are", "document.querySelector('table').getAttribute('aria-rowcount') === '10002'")
	b.eval("[...document.querySelectorAll('th button')].find(x => x.innerText === 'Bodies').click()")
	b.shows("the largest first", `document.querySelector('th[aria-sort=descending]').innerText.startsWith('Bodies') && document.querySelector('tbody tr[aria-rowindex="2"]')?.innerText.includes('tube-00006')`)
	for range 15 {
		b.eval("(box => { box.scrollTop = box.scrollHeight; })(document.querySelector('.table'))")
		b.eval("new Promise(done => setTimeout(done, 50))")
		b.rows()
	}
	b.keys("/")
	b.keys(strings.Split("tube-09999", "")...)
	b.shows("the one tube", "document.querySelectorAll('tbody tr[aria-rowindex]').length === 1 && document.querySelector('tbody').innerText.includes('tube-09999')")
	b.quiet()
}

// TestManyJobs: a user can scroll through all jobs and find one, and an action on all jobs shows
// their number.
func TestManyJobs(t *testing.T) {
	long(t)
	s := serve(t)
	n := *jobs
	fillMany(t, s.Listen[0], n, func(int) string { return "mail" }, func(i int) string {
		if i == n*3/4 {
			return "the needle"
		}
		return fmt.Sprintf("job %d", i)
	})
	b := open(t, s.base, "tube/mail", look{})
	b.reads("job 9")
	b.shows("more of them as one scrolls", "(box => { box.scrollTop = box.scrollHeight; return Number(box.querySelector('table').getAttribute('aria-rowcount')) > 500; })(document.querySelector('.table'))")
	b.rows()
	b.eval("document.querySelector('.table').scrollTop = 0")
	b.keys("/")
	b.keys("needle", kb.Enter)
	b.shows("the one job", "document.querySelectorAll('tbody tr[aria-rowindex]').length === 1 && document.querySelector('tbody').innerText.includes('the needle')")
	b.visit("tube/mail")
	b.shows("all jobs", "document.querySelectorAll('tbody tr[aria-rowindex]').length > 10")
	b.press("Bury")
	all := strings.ReplaceAll(b.eval(fmt.Sprintf("String(%d).replace(/\\B(?=(\\d{3})+$)/g, ',')", n)), ",", "\u202f")
	b.reads("Bury " + all + " jobs?")
	b.answer("mail")
	b.press("Bury " + all)
	b.reads(all + " jobs buried")
	b.visit("tube/mail?state=buried")
	b.press("Flush …")
	b.press("Count")
	b.reads("Flush " + all + " jobs?")
	b.answer("mail")
	b.press("Flush " + all)
	b.reads(all + " jobs flushed from mail")
	b.quiet(notThere) // for the removed tube
}
