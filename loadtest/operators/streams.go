package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// streams are two pages that are open, of the server and of lists of tubes, and a scrape each
// five seconds.
func (a *actor) streams() error {
	views := []string{"topics=server,tubes&sort=-ready", "topics=server,tubes,journal&sort=-oldest&match=*5*"}
	return crowd(len(views)+1, func(i int) error {
		if i == len(views) {
			return a.scrapes()
		}
		c := client(a.socket)
		c.Timeout = 0
		resp, err := c.Get("http://localhost/api/v1/events?" + views[i])
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", views[i], resp.Status)
		}
		for r := bufio.NewReader(resp.Body); !a.over(); {
			start := time.Now()
			line, err := r.ReadString('\n')
			if err != nil {
				return err
			}
			if name, ok := strings.CutPrefix(line, "event: "); ok {
				a.did("waits for an event "+strings.TrimSpace(name), start)
			}
		}
		return nil
	})
}

// scrapes reads the metrics each five seconds.
func (a *actor) scrapes() error {
	c := client(a.socket)
	for {
		start := time.Now()
		if code, _, err := get(c, "/metrics"); err != nil || code != http.StatusOK {
			return fmt.Errorf("/metrics: %d %v", code, err)
		}
		a.did("scrapes", start)
		for next := start.Add(5 * time.Second); time.Now().Before(next); time.Sleep(10 * time.Millisecond) {
			if a.over() {
				return nil
			}
		}
	}
}

// slowStreams are 200 that ask for events, and read a few bytes of them now and then, or none.
func (a *actor) slowStreams() error {
	return a.visitors(200, "slow streams", 50*time.Millisecond, func(i int, c net.Conn) {
		fmt.Fprintf(c, "GET /api/v1/events?topics=server,tubes&limit=1000&sort=-%s HTTP/1.1\r\nHost: localhost\r\n\r\n", []string{"ready", "oldest", "total"}[i%3])
		a.sips(c, int64(i%2)*64)
	})
}
