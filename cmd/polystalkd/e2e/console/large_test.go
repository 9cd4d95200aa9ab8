package console

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
)

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
