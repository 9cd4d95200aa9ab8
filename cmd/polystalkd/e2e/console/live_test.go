package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

// TestStreamIsLostAndComesBack: figures of a server that is gone are said to be stale.
func TestStreamIsLostAndComesBack(t *testing.T) {
	s := serve(t)
	s.fill()
	b := open(t, browser(t), s.base, "overview", look{})
	b.reads("live")
	s.Signal(syscall.SIGKILL)
	<-s.Done
	b.reads("stale since")
	addr := strings.TrimPrefix(s.base, "http://")
	cmd := exec.Command(daemon.Binary, "--log-format", "json", "-l", "127.0.0.1", "-p", "0", "--http", addr)
	daemon.Await(t, cmd)
	b.shows("that it is live again", "document.querySelector('button.live').innerText.includes('live')")
}

// TestFiguresAreLive: they come by themselves, and stand still when somebody wants that.
func TestFiguresAreLive(t *testing.T) {
	s := serve(t)
	s.put("mail", "one", "")
	b := open(t, browser(t), s.base, "tubes", look{})
	ready := func(n int) string {
		return fmt.Sprintf("[...document.querySelectorAll('tbody tr')].some(r => r.innerText.includes('mail') && r.cells[2].innerText.trim() === '%d')", n)
	}
	b.shows("one job", ready(1))
	s.put("mail", "two", "")
	b.shows("two jobs", ready(2))
	b.keys("p")
	b.reads("paused")
	s.put("mail", "three", "")
	s.put("other", "one", "")
	b.eval("new Promise(done => setTimeout(done, 5000))")
	if b.eval(ready(2)) != "true" {
		t.Errorf("figures go on while they should stand still: %s", b.text())
	}
	b.keys("p")
	b.shows("three jobs", ready(3))
	b.reads("other")
	b.quiet()
}

// TestBehindAPrefix: a proxy may put anything before the paths, stripped or not.
func TestBehindAPrefix(t *testing.T) {
	s := serve(t)
	s.fill()
	to, err := url.Parse(s.base)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.FlushInterval = -1
	front := httptest.NewServer(http.StripPrefix("/ops/queue", proxy))
	t.Cleanup(front.Close)
	b := open(t, browser(t), front.URL+"/ops/queue", "tubes", look{})
	b.reads("mail")
	b.visit("tube/bytes%FE%FF")
	b.reads("alert(1)")
	b.press("Put a job")
	b.answer("behind a proxy")
	b.press("Put")
	b.reads("was put")
	b.reads("live")
	b.quiet()
}

// TestTenThousandTubes: the page has few rows of them, and sorts and filters on the server.
func TestTenThousandTubes(t *testing.T) {
	s := serve(t)
	c := s.Client()
	const n = 10_000
	for i := range n {
		body := strings.Repeat("x", 1+i%7)
		for _, line := range []string{fmt.Sprintf("use tube-%05d\r\n", i), fmt.Sprintf("put 0 0 60 %d\r\n%s\r\n", len(body), body)} {
			if _, err := c.Ask(line); err != nil {
				t.Fatal(err)
			}
		}
	}
	b := open(t, browser(t), s.base, "tubes", look{})
	b.reads("10\u202f001 tubes")
	count := func() int {
		rows, err := strconv.Atoi(b.eval("document.querySelectorAll('tbody tr').length"))
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	if rows := count(); rows > 60 || rows < 10 {
		t.Errorf("%d rows in the page", rows)
	}
	b.press("Bodies")
	b.shows("the largest first", "document.querySelector('th[aria-sort=descending]')")
	for range 40 {
		b.eval("(box => { box.scrollTop = box.scrollHeight; })(document.querySelector('.table'))")
		b.eval("new Promise(done => setTimeout(done, 50))")
		if rows := count(); rows > 60 {
			t.Fatalf("%d rows in the page after scrolling", rows)
		}
	}
	b.keys("/")
	b.keys(strings.Split("tube-09999", "")...)
	b.shows("the one tube", "document.querySelectorAll('tbody tr').length === 1 && document.querySelector('tbody').innerText.includes('tube-09999')")
	b.quiet()
}
