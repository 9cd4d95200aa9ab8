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
	"strings"
	"sync"
	"time"
)

// crowd runs f so often at the same time, and returns the first error.
func crowd(n int, f func(i int) error) error {
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { errs[i] = f(i) })
	}
	group.Wait()
	return errors.Join(errs...)
}

func (a *actor) dial() (net.Conn, error) { return net.Dial("unix", a.socket) }

// storm is connections that come and go, as quickly as one process makes them.
func (a *actor) storm() error {
	return crowd(4, func(int) error {
		for !a.over() {
			start := time.Now()
			if c, err := a.dial(); err == nil {
				fmt.Fprint(c, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
				c.Close()
			}
			a.did("connections", start)
		}
		return nil
	})
}

// pipelines are 20 connections that send requests without a pause and read the answers.
func (a *actor) pipelines() error {
	return crowd(20, func(int) error {
		c, err := a.dial()
		if err != nil {
			return err
		}
		defer c.Close()
		c.SetDeadline(a.until)
		go func() {
			for requests := strings.Repeat("GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", 64); err == nil; {
				_, err = io.WriteString(c, requests)
			}
		}()
		for r := bufio.NewReader(c); ; {
			start := time.Now()
			resp, err := http.ReadResponse(r, nil)
			if err != nil {
				if a.over() {
					return nil
				}
				return err
			}
			io.Copy(io.Discard, resp.Body)
			a.did("requests", start)
		}
	})
}

// control has nothing to do with the server: it takes a third of a processor.
func (a *actor) control() error { return a.spin(2 * time.Millisecond) }

// hog has nothing to do with the server either: it takes what is left of a processor.
func (a *actor) hog() error { return a.spin(0) }

// spin takes a processor for a millisecond, again and again, with a rest between.
func (a *actor) spin(rest time.Duration) error {
	for !a.over() {
		start := time.Now()
		for time.Since(start) < time.Millisecond {
		}
		a.did("milliseconds", start)
		time.Sleep(rest)
	}
	return nil
}

// visitors are n that connect again and again, each when it is done with f; a time passes
// after a connection that was refused.
func (a *actor) visitors(n int, what string, again time.Duration, f func(i int, c net.Conn)) error {
	return crowd(n, func(i int) error {
		for !a.over() {
			start := time.Now()
			c, err := a.dial()
			if err != nil {
				a.did("refused", start)
				time.Sleep(again)
				continue
			}
			f(i, c)
			c.Close()
			a.did(what, start)
		}
		return nil
	})
}

// slowReaders are 200 that ask for long answers, and read a few bytes now and then.
func (a *actor) slowReaders() error {
	paths := []string{
		"/api/v1/tubes/backlog/jobs?order=oldest&state=ready&limit=1000&body=full", "/metrics", "/metrics/tubes",
		"/api/v1/jobs?limit=1000&body=full", "/api/v1/openapi.json", "/api/v1/tubes",
	}
	return a.visitors(200, "slow readers", 50*time.Millisecond, func(i int, c net.Conn) {
		start := time.Now()
		for range 4 { // pipelined
			fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", paths[i%len(paths)])
		}
		if !a.sips(c, 64) {
			a.did("cut off", start)
			time.Sleep(50 * time.Millisecond)
		}
	})
}

// sips reads a few bytes now and then, until the server ends it. It reports false if there
// was nothing to read at all.
func (a *actor) sips(c net.Conn, size int64) (read bool) {
	for n := 0; !a.over(); n++ {
		c.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := io.CopyN(io.Discard, c, size); err != nil {
			return n > 0
		}
		time.Sleep(100 * time.Millisecond)
	}
	return true
}

// flood asks for heavy things from many sides at once. Who is not served is told when to
// come again.
func (a *actor) flood() error {
	a.until = a.until.Add(2 * time.Second) // that long one waits in line
	paths := []string{
		"/api/v1/jobs?contains=needle", "/metrics/tubes", "/api/v1/tubes/backlog/jobs?order=scan&state=buried", "/metrics", "/api/v1/tubes?sort=-ready",
		"/api/v1/jobs?state=buried",
	}
	return crowd(40, func(i int) error {
		c := client(a.socket)
		for !a.over() {
			start := time.Now()
			resp, err := c.Get("http://localhost" + paths[i%len(paths)])
			if err != nil {
				a.did("cut off", start)
				continue
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			switch {
			case resp.StatusCode == http.StatusTooManyRequests && resp.Header.Get("Retry-After") == "":
				return errors.New("429 without Retry-After")
			case resp.StatusCode == http.StatusTooManyRequests, resp.StatusCode == http.StatusOK, resp.StatusCode == http.StatusServiceUnavailable:
			default:
				return fmt.Errorf("%s: %s", paths[i%len(paths)], resp.Status)
			}
			a.did(resp.Status, start)
		}
		return nil
	})
}

// garbage asks what makes no sense. Nothing but 4xx may come of it.
func (a *actor) garbage() error {
	noise := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rand.Uint32())
		}
		return string(b)
	}
	return crowd(4, func(int) error {
		c := client(a.socket)
		for !a.over() {
			asks := []struct{ method, path, body string }{
				{"GET", "/api/v1/jobs?after=" + url.QueryEscape(noise(1+rand.IntN(200))), ""},
				{"GET", "/api/v1/tubes/backlog/jobs?order=oldest&state=ready&after=" + strings.Repeat("A", rand.IntN(5000)), ""},
				{"GET", "/api/v1/jobs/" + url.PathEscape("x"+noise(rand.IntN(30))), ""}, // no number
				{"GET", "/api/v1/jobs/99999999999999999999999999", ""},
				{"DELETE", "/api/v1/jobs/-1", ""},
				{"GET", "/api/v1/jobs?contains=" + url.QueryEscape(noise(4000)), ""},
				{"GET", "/api/v1/jobs?id_min=x&id_max=" + noiseDigits(300), ""},
				{"GET", "/api/v1/tubes?limit=0&match=" + url.QueryEscape(strings.Repeat("*a", 3000)), ""},
				{"GET", "/api/v1/tubes/" + url.PathEscape(noise(500)) + "/jobs", ""},
				{"POST", "/api/v1/operations", noise(1000)},
				{"POST", "/api/v1/operations", `{"action":"delete","select":{"tube":"backlog","states":` + strings.Repeat("[", 5000) + "}}"},
				{"POST", "/api/v1/tubes/garbage/jobs", `{"body":` + strings.Repeat(`{"a":`, 3000)},
				{"PATCH", "/api/v1/jobs/1", `{"pri":1e999}`},
				{"GET", "/api/v1/" + strings.Repeat("../", 200) + "etc/passwd", ""},
			}
			ask := asks[rand.IntN(len(asks))]
			start := time.Now()
			req, err := http.NewRequest(ask.method, "http://localhost"+ask.path, strings.NewReader(ask.body))
			if err != nil {
				continue
			}
			if ask.body != "" {
				req.Header.Set("Content-Type", "application/json")
			}
			resp, err := c.Do(req)
			if err != nil {
				a.did("cut off", start)
				continue
			}
			b, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode < 400 || resp.StatusCode >= 500 {
				return fmt.Errorf("%s %.100s: %s %.200s", ask.method, ask.path, resp.Status, b)
			}
			a.did(resp.Status, start)
		}
		return nil
	})
}

func noiseDigits(n int) string {
	var b bytes.Buffer
	for range n {
		b.WriteByte(byte('0' + rand.IntN(10)))
	}
	return b.String()
}

// idle is 160 connections that say nothing, or come and go.
func (a *actor) idle() error {
	return a.visitors(160, "connections", 20*time.Millisecond, func(i int, c net.Conn) {
		for !a.over() && i%4 > 0 {
			c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
			if _, err := c.Read(make([]byte, 1)); err != nil && !isTimeout(err) {
				break
			}
		}
		time.Sleep(10 * time.Millisecond)
	})
}

func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

// halves are requests that never come whole.
func (a *actor) halves() error {
	texts := []string{
		"GET /api/v1/jobs HTTP/1.1\r\nHost: loc", "POST /api/v1/tubes/halves/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 900000\r\n\r\n{\"body\":\"half",
		"POST /api/v1/operations HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\nffff\r\n{", "\x16\x03\x01\x02\x00\x01", "",
		"GET / HTTP/1.1\r\n" + strings.Repeat("X-Y: "+strings.Repeat("z", 100)+"\r\n", 150),
	}
	return crowd(100, func(i int) error {
		for !a.over() {
			start := time.Now()
			c, err := a.dial()
			if err != nil {
				a.did("refused", start)
				time.Sleep(20 * time.Millisecond)
				continue
			}
			io.WriteString(c, texts[i%len(texts)])
			c.SetReadDeadline(time.Now().Add(time.Duration(rand.IntN(500)) * time.Millisecond))
			io.Copy(io.Discard, c)
			c.Close()
			a.did("halves", start)
		}
		return nil
	})
}

// largeBodies puts jobs as large as may be, and larger, and deletes them.
func (a *actor) largeBodies() error {
	return crowd(4, func(i int) error {
		c := client(a.socket)
		for !a.over() {
			size := []int{65535, 65536, 1 << 20, 64}[rand.IntN(4)]
			start := time.Now()
			resp, err := c.Post("http://localhost/api/v1/tubes/large/jobs?delay=1000", "application/octet-stream", bytes.NewReader(make([]byte, size)))
			if err != nil {
				a.did("cut off", start)
				continue
			}
			b, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			a.did(fmt.Sprintf("put of %d: %s", size, resp.Status), start)
			if id := text(b, "id"); resp.StatusCode == http.StatusCreated {
				req, _ := http.NewRequest("DELETE", "http://localhost/api/v1/jobs/"+id, nil)
				resp, err := c.Do(req)
				if err != nil || resp.StatusCode != http.StatusNoContent {
					return fmt.Errorf("delete of %s: %v %w", id, resp, err)
				}
				resp.Body.Close()
			}
		}
		return nil
	})
}
