package console

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// How much there is in the tests of this file, which is less than it should be where many
// other tests run beside them:
//
//	go test ./cmd/polystalkd/e2e/console -run Many -v -updates 10m -jobs 1000000
var (
	updates = flag.Duration("updates", 3*time.Second, "how long 10,000 tubes change while a page shows them")
	jobs    = flag.Int("jobs", 20_000, "how many jobs a page goes through")
)

// fillMany puts jobs by a connection of its own, many at a time; tube and body return those for the i-th job.
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

// rows are how many of a table are in the document, which must be few however many there are.
func (b *tab) rows() int {
	b.t.Helper()
	rows, err := strconv.Atoi(b.eval("document.querySelectorAll('tbody tr[aria-rowindex]').length"))
	noErr(b.t, err)
	require(b.t, rows <= 60, "%d rows in the document", rows)
	return rows
}

// heap is how much memory the page's objects take, without garbage.
func (b *tab) heap() int {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if _, err := chromedp.Call(ctx, heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
		b.t.Fatal(err)
	}
	v, err := chromedp.Call(ctx, runtime.GetHeapUsage, cdp.Empty{})
	noErr(b.t, err)
	return int(v.UsedSize)
}

// TestManyTubes: the page has few rows of them, sorts and filters on the server, and is told of
// those that are seen. It logs what that costs.
func TestManyTubes(t *testing.T) {
	long(t)
	s := serve(t)
	const n = 10_000
	name := func(i int) string { return fmt.Sprintf("tube-%05d", i) }
	fillMany(t, s.Listen[0], n, name, func(i int) string { return strings.Repeat("x", 1+i%7) })
	f := newFront(t, s.base)
	b := open(t, f.URL, "tubes", look{})
	b.eval("(window.longest = 0, new PerformanceObserver(l => { for (const e of l.getEntries()) longest = Math.max(longest, e.duration); }).observe({type: 'longtask', buffered: true}))")
	b.reads("10\u202f001 tubes")
	expect(t, b.rows() >= 10, "%d rows in the document", b.rows())
	b.shows("how many there are", "document.querySelector('table').getAttribute('aria-rowcount') === '10002'")
	sorted := b.eval(`(async () => {
		const first = () => document.querySelector('tbody tr[aria-rowindex="2"]')?.innerText;
		const took = [];
		for (const by of ['Bodies', 'Tube', 'Bodies', 'Tube', 'Bodies', 'Tube', 'Bodies']) {
			const was = first(), at = performance.now();
			[...document.querySelectorAll('th button')].find(x => x.innerText === by).click();
			while (!first() || first() === was) await new Promise(requestAnimationFrame);
			took.push(performance.now() - at);
		}
		took.sort((a, b) => a - b);
		return took[0].toFixed(0) + ' to ' + took[6].toFixed(0) + ', mostly ' + took[3].toFixed(0);
	})()`)
	b.shows("the largest first", "document.querySelector('th[aria-sort=descending]').innerText.startsWith('Bodies')")
	for range 15 {
		b.eval("(box => { box.scrollTop = box.scrollHeight; })(document.querySelector('.table'))")
		b.eval("new Promise(done => setTimeout(done, 50))")
		b.rows()
	}
	b.eval("document.querySelector('.table').scrollTop = 0")

	// Tubes change while they are seen.
	b.visit("tubes")
	b.shows("them by name", "document.querySelector('tbody tr[aria-rowindex=\"2\"]')?.innerText.includes('default')")
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		c := s.Client()
		for {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
			for range 5 {
				for _, line := range []string{"use " + name(rand.N(n)) + "\r\n", "put 0 0 60 1\r\nx\r\n"} {
					if _, err := c.Ask(line); err != nil {
						return
					}
				}
			}
		}
	}()
	told := streamed(t, s.base+f.newest("/api/v1/events"), *updates)
	used := b.heap()
	close(stop)
	<-done
	t.Logf("sorted in %s ms, longest task %s ms, %.1f MB of heap after %v, %.1f kB/s of events", sorted, b.eval("longest.toFixed(0)"), float64(used)/1e6, *updates, told/1e3)

	b.keys("/")
	b.keys(strings.Split("tube-09999", "")...)
	b.shows("the one tube", "document.querySelectorAll('tbody tr[aria-rowindex]').length === 1 && document.querySelector('tbody').innerText.includes('tube-09999')")
	b.quiet()
}

// streamed is how many bytes a second a stream of events has, over some time.
func streamed(t *testing.T, url string, over time.Duration) float64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), over)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	noErr(t, err)
	resp, err := http.DefaultClient.Do(r)
	noErr(t, err)
	defer resp.Body.Close()
	n, _ := io.Copy(io.Discard, resp.Body) // until its time is over
	expect(t, n != 0, "nothing was told")
	return float64(n) / over.Seconds()
}

// TestManyJobs: all of them can be gone through, one can be found among them, and what is done
// to all says how many they are.
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
	b.quiet(notThere) // of the tube, which has ended
}
