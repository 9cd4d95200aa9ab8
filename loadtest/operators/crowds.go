package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"
)

// crowd lets n members do the same again and again. member returns what it did.
func (a *actor) crowd(n int, member func(i int) (did string, err error)) error {
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			for !a.over() && errs[i] == nil {
				start := time.Now()
				var did string
				did, errs[i] = member(i)
				a.did(did, start)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// visitors are a crowd of n that connect again and again. A member waits after a connection
// that was refused, or that the server closed at once.
func (a *actor) visitors(n int, what string, visit func(i int, c net.Conn) (served bool)) error {
	return a.crowd(n, func(i int) (string, error) {
		c, err := net.Dial("unix", *socket)
		if err == nil {
			defer c.Close()
			if visit(i, c) {
				return what, nil
			}
		}
		time.Sleep(50 * time.Millisecond)
		return "refused", nil
	})
}

// sip reads a few bytes now and then, until the server ends it. It reports whether there was
// anything to read.
func (a *actor) sip(c net.Conn, size int64) (read bool) {
	for ; !a.over(); read = true {
		c.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := io.CopyN(io.Discard, c, size); err != nil {
			return read
		}
		time.Sleep(100 * time.Millisecond)
	}
	return true
}

// slowReaders ask for long answers, and read a few bytes now and then.
func (a *actor) slowReaders() error {
	paths := []string{
		"/api/v1/tubes/backlog/jobs?order=oldest&state=ready&limit=1000&body=full", "/metrics", "/metrics/tubes",
		"/api/v1/jobs?limit=1000&body=full", "/api/v1/openapi.json", "/api/v1/tubes",
	}
	return a.visitors(200, "slow readers", func(i int, c net.Conn) bool {
		for range 4 { // pipelined
			fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", paths[i%len(paths)])
		}
		return a.sip(c, 64)
	})
}

// slowStreams ask for events, and read a few bytes of them now and then, or none.
func (a *actor) slowStreams() error {
	return a.visitors(200, "slow streams", func(i int, c net.Conn) bool {
		fmt.Fprintf(c, "GET /api/v1/events?topics=server,tubes&limit=1000&sort=-%s HTTP/1.1\r\nHost: localhost\r\n\r\n", []string{"ready", "oldest", "total"}[i%3])
		return a.sip(c, int64(i%2)*64)
	})
}

// flood asks for expensive pages from many sides at once. A client that is not served is told
// when to return.
func (a *actor) flood() error {
	a.until = a.until.Add(2 * time.Second) // a request waits that long
	paths := []string{
		"/api/v1/jobs?contains=needle", "/metrics/tubes", "/api/v1/tubes/backlog/jobs?order=scan&state=buried", "/metrics", "/api/v1/tubes?sort=-ready",
		"/api/v1/jobs?state=buried",
	}
	clients := make([]*http.Client, 40)
	for i := range clients {
		clients[i] = httpClient(*socket)
	}
	return a.crowd(len(clients), func(i int) (string, error) {
		code, b, err := ask(clients[i], "GET", paths[i%len(paths)], "")
		switch {
		case code == 0:
			return "cut off", nil
		case err == nil && code != 200 && code != 429 && code != 503:
			err = fmt.Errorf("%s: %d %.200s", paths[i%len(paths)], code, b)
		}
		return fmt.Sprint(code), err
	})
}

// garbage asks for what makes no sense. Every answer must be a 4xx.
func (a *actor) garbage() error {
	noise := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rand.Uint32())
		}
		return string(b)
	}
	c := httpClient(*socket)
	return a.crowd(4, func(int) (string, error) {
		all := [][3]string{
			{"GET", "/api/v1/jobs?after=" + url.QueryEscape(noise(1+rand.IntN(200)))},
			{"GET", "/api/v1/tubes/backlog/jobs?order=oldest&state=ready&after=" + strings.Repeat("A", rand.IntN(5000))},
			{"GET", "/api/v1/jobs/" + url.PathEscape("x"+noise(rand.IntN(30)))},
			{"GET", "/api/v1/jobs/99999999999999999999999999"},
			{"DELETE", "/api/v1/jobs/-1"},
			{"GET", "/api/v1/jobs?contains=" + url.QueryEscape(noise(4000))},
			{"GET", "/api/v1/jobs?id_min=x&id_max=" + strings.Repeat(fmt.Sprint(rand.Uint64()), 15)},
			{"GET", "/api/v1/tubes?limit=0&match=" + url.QueryEscape(strings.Repeat("*a", 3000))},
			{"GET", "/api/v1/tubes/" + url.PathEscape(noise(500)) + "/jobs"},
			{"POST", "/api/v1/operations", noise(1000)},
			{"POST", "/api/v1/operations", `{"action":"delete","select":{"tube":"backlog","states":` + strings.Repeat("[", 5000) + "}}"},
			{"POST", "/api/v1/tubes/garbage/jobs", `{"body":` + strings.Repeat(`{"a":`, 3000)},
			{"PATCH", "/api/v1/jobs/1", `{"pri":1e999}`},
			{"GET", "/api/v1/" + strings.Repeat("../", 200) + "etc/passwd"},
		}
		r := all[rand.IntN(len(all))]
		code, b, err := ask(c, r[0], r[1], r[2])
		if code == 0 {
			return "cut off", nil
		}
		if err == nil && (code < 400 || code >= 500) {
			err = fmt.Errorf("%s %.100s: %d %.200s", r[0], r[1], code, b)
		}
		return fmt.Sprint(code), err
	})
}

// idle is connections that say nothing, or come and go.
func (a *actor) idle() error {
	return a.visitors(160, "connections", func(i int, c net.Conn) bool {
		for !a.over() && i%4 > 0 {
			c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
			if _, err := c.Read(make([]byte, 1)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
		}
		time.Sleep(10 * time.Millisecond)
		return true
	})
}

const livez = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"

// storm is connections that come and go, as quickly as one process makes them.
func (a *actor) storm() error {
	return a.crowd(4, func(int) (string, error) {
		if c, err := net.Dial("unix", *socket); err == nil {
			io.WriteString(c, livez)
			c.Close()
		}
		return "connections", nil
	})
}

// pipelines are connections that send requests without a pause and read the answers.
func (a *actor) pipelines() error {
	return a.crowd(20, func(int) (string, error) {
		c, err := net.Dial("unix", *socket)
		if err != nil {
			return "refused", err
		}
		defer c.Close()
		c.SetDeadline(a.until)
		go func() {
			for requests := strings.Repeat(livez, 64); err == nil; {
				_, err = io.WriteString(c, requests)
			}
		}()
		for r := bufio.NewReader(c); ; {
			start := time.Now()
			resp, err := http.ReadResponse(r, nil)
			if err != nil {
				if a.over() {
					err = nil
				}
				return "pipelines", err
			}
			io.Copy(io.Discard, resp.Body)
			a.did("requests", start)
		}
	})
}

// halves are requests that are never complete.
func (a *actor) halves() error {
	texts := []string{
		"GET /api/v1/jobs HTTP/1.1\r\nHost: loc", "POST /api/v1/tubes/halves/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 900000\r\n\r\n{\"body\":\"half",
		"POST /api/v1/operations HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\nffff\r\n{", "\x16\x03\x01\x02\x00\x01", "",
		"GET / HTTP/1.1\r\n" + strings.Repeat("X-Y: "+strings.Repeat("z", 100)+"\r\n", 150),
	}
	return a.visitors(100, "halves", func(i int, c net.Conn) bool {
		io.WriteString(c, texts[i%len(texts)])
		c.SetReadDeadline(time.Now().Add(time.Duration(rand.IntN(500)) * time.Millisecond))
		io.Copy(io.Discard, c)
		return true
	})
}

var jobID = regexp.MustCompile(`"id":"?(\d+)`)

// largeBodies puts jobs of the largest size, and larger, and deletes them.
func (a *actor) largeBodies() error {
	c := httpClient(*socket)
	return a.crowd(4, func(int) (string, error) {
		size := []int{65535, 65536, 1 << 20, 64}[rand.IntN(4)]
		resp, err := c.Post("http://localhost/api/v1/tubes/large/jobs?delay=1000", "application/octet-stream", bytes.NewReader(make([]byte, size)))
		if err != nil {
			return "cut off", nil
		}
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if m := jobID.FindSubmatch(b); resp.StatusCode == http.StatusCreated && m != nil {
			_, err = asks(c, "DELETE", "/api/v1/jobs/"+string(m[1]), "")
		}
		return fmt.Sprintf("put of %d: %s", size, resp.Status), err
	})
}
