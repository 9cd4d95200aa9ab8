package client

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"polystalk/loadtest/faults/history"
)

// serve is a server that answers each command as answer says, until it says nothing.
func serve(t *testing.T, answer func(n int, line string) string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				r := bufio.NewReader(c)
				for n := 0; ; n++ {
					line, err := r.ReadString('\n')
					if err != nil {
						return
					}
					var pri, delay, ttr, size int
					if _, err := fmt.Sscanf(line, "put %d %d %d %d", &pri, &delay, &ttr, &size); err == nil {
						r.Discard(size + 2)
					}
					say := answer(n, strings.TrimSpace(line))
					if say == "" {
						return
					}
					if _, err := c.Write([]byte(say)); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// crewOf is one producer of single puts.
func crewOf(t *testing.T, addr string) (*Crew, *history.History) {
	h := history.New(history.Options{Tubes: Names(2, 0)})
	w := Start(t.Context(), Options{History: h, Beanstalkd: func() []string { return []string{addr} }, Tubes: 2, Clients: Clients{Singles: 1}, Depth: 4, Patience: 10 * time.Second})
	t.Cleanup(w.Stop)
	return w, h
}

func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for limit := time.Now().Add(30 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal(what)
		}
	}
}

func TestBrokenConnectionsLeaveDoubtAndAreMadeAgain(t *testing.T) {
	id := 0
	addr := serve(t, func(n int, line string) string {
		switch {
		case n == 0:
			return "USING " + strings.TrimPrefix(line, "use ") + "\r\n"
		case n == 1:
			id++
			return fmt.Sprintf("INSERTED %d\r\n", id)
		}
		return ""
	})
	w, h := crewOf(t, addr)
	await(t, "no connections are made again", func() bool { return w.Dialed() > 3 })
	w.Stop()
	s := h.Sums()
	if s.Acknowledged < 3 || s.PutInDoubt() < 3 {
		t.Errorf("%+v", s)
	}
	if err := w.Wrong(); len(err) > 0 {
		t.Error(err)
	}
	if got := w.Pause.Count(); got != s.Acknowledged {
		t.Errorf("%d puts are counted, %d were acknowledged", got, s.Acknowledged)
	}
}

func TestAnswersThatAreNoneAreTold(t *testing.T) {
	for _, answer := range []string{"NOT_FOUND\r\n", "INSERTED x\r\n", "INSERTED 1\n", "\r\n", strings.Repeat("x", 10_000) + "\r\n"} {
		addr := serve(t, func(n int, line string) string {
			if n == 0 {
				return "USING " + strings.TrimPrefix(line, "use ") + "\r\n"
			}
			return answer
		})
		w, h := crewOf(t, addr)
		await(t, fmt.Sprintf("%.40q passes", answer), func() bool { return len(w.Wrong()) > 0 })
		w.Stop()
		if s := h.Sums(); s.Acknowledged != 0 {
			t.Errorf("%.40q: %+v", answer, s)
		}
	}
}

func TestRefusedPutsAreNoDoubt(t *testing.T) {
	addr := serve(t, func(n int, line string) string {
		if n == 0 {
			return "USING " + strings.TrimPrefix(line, "use ") + "\r\n"
		}
		return "OUT_OF_MEMORY\r\n"
	})
	w, h := crewOf(t, addr)
	await(t, "no put is refused", func() bool { return h.Sums().Refused > 2 })
	w.Stop()
	if s := h.Sums(); s.Acknowledged != 0 || s.PutInDoubt() > 1 {
		t.Errorf("%+v", s)
	}
}

func TestPauseIsTheLongest(t *testing.T) {
	var p Pause
	p.Begin()
	begun := p.last
	p.acknowledged(begun + int64(time.Hour))
	p.acknowledged(begun + int64(3*time.Hour))
	p.acknowledged(begun + int64(2*time.Hour)) // told late
	if d := p.Longest(); d != 2*time.Hour {
		t.Errorf("%v, want two hours", d)
	}
	p.Begin()
	if d := p.Longest(); d >= time.Hour {
		t.Errorf("%v after it has begun anew", d)
	}
}

func TestSightReadsStats(t *testing.T) {
	got := sight([]byte("---\nid: 7\ntube: \"a b\"\nstate: buried\npri: 4294967295\nage: 3\ndelay: 0\nttr: 60\n"))
	if want := (history.Sight{Tube: "a b", State: "buried", Pri: 4294967295, TTR: 60}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if n := jobsIn([]byte("---\ncurrent-jobs-urgent: 9\ncurrent-jobs-ready: 1\ncurrent-jobs-reserved: 2\ncurrent-jobs-delayed: 3\ncurrent-jobs-buried: 4\n")); n != 10 {
		t.Errorf("%d jobs, want 10", n)
	}
}
