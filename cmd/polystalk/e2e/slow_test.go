package e2e

import (
	"context"
	"flag"
	"io"
	"log"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"polystalk/cmd/polystalk/client"
	"polystalk/cmd/polystalkd/e2e/daemon"
)

var slowTimeoutFlag = flag.Duration("slow-timeout", 300*time.Millisecond, "--timeout of the commands that ask bad servers")

// drips sends a text at once, and then more of another one, an octet at a time, until the client
// is gone. An interval of 0 sends it without rest.
func drips(t *testing.T, first, then string, every time.Duration) string {
	t.Helper()
	return serving(t, func(conn net.Conn) {
		go func() { _, _ = io.Copy(io.Discard, conn) }()
		_, err := io.WriteString(conn, first)
		if every == 0 {
			then = strings.Repeat(then, 1+1<<16/len(then))
		}
		for at := 0; err == nil; at++ {
			if every > 0 {
				time.Sleep(every)
				_, err = io.WriteString(conn, then[at%len(then):at%len(then)+1])
			} else {
				_, err = io.WriteString(conn, then)
			}
		}
	})
}

// TestEveryCommandEndsWithinTwiceItsTimeout, whatever a server sends.
func TestEveryCommandEndsWithinTwiceItsTimeout(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	commands := append(asking(t), []string{"check"}, []string{"edit", "1", "--body", "-"}, []string{"cluster", "remove", "a"}, []string{"cluster", "promote", "a"},
		[]string{"cluster", "transfer"}, []string{"cluster", "backup"})
	log.SetOutput(io.Discard) // as main does
	defer log.SetOutput(os.Stderr)
	const every = 20 * time.Millisecond
	head := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
	octets := "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n"
	chunk := "5\r\n     \r\n"
	servers := map[string]string{
		"silent": drips(t, "", "x", time.Hour), "silent after its head": drips(t, head+"\r\n", " ", time.Hour),
		"dripping its head": drips(t, "", head, every), "dripping a header": drips(t, head+"X: ", "x", every), "dripping JSON": drips(t, head+"\r\n", " ", every),
		"dripping chunks": drips(t, head+"Transfer-Encoding: chunked\r\n\r\n", chunk, every), "dripping a body": drips(t, octets+"Content-Length: 1000000\r\n\r\n", "x", every),
		"endless headers": drips(t, head, "X: x\r\n", 0), "endless JSON": drips(t, head+"\r\n", " ", 0), "endless chunks": drips(t, head+"Transfer-Encoding: chunked\r\n\r\n", chunk, 0),
		"an endless body": drips(t, octets+"\r\n", "x", 0), "an announced body that is endless": drips(t, octets+"Content-Length: 1000000\r\n\r\n", "x", 0),
		"an endless problem":      drips(t, strings.Replace(head, "200 OK", "404 Not Found", 1)+"\r\n", " ", 0),
		"endless interim answers": drips(t, "", "HTTP/1.1 103 Early Hints\r\n\r\n", 0),
	}
	const hello = "USING default\r\n"
	for about, text := range map[string][2]string{
		"a greeting": {"", hello}, "a line": {hello, "x"}, "lines": {hello, "x\r\n"}, "lines that nobody asked for": {hello, hello},
		"statistics": {hello + "OK 60000\r\n", "x"}, "lists": {hello + "OK 200000000\r\n", "- a\n"}, "a job": {hello + "FOUND 1 1000000\r\n", "x"}, "jobs": {hello, "FOUND 1 5\r\nabcde\r\n"},
	} {
		servers["beanstalk dripping "+about] = drips(t, text[0], text[1], every)
		servers["beanstalk endless "+about] = drips(t, text[0], text[1], 0)
	}
	servers["beanstalk silent"], servers["beanstalk silent after its greeting"] = drips(t, "", "x", time.Hour), drips(t, hello, "x", time.Hour)
	var all sync.WaitGroup
	var mu sync.Mutex
	var longest time.Duration
	var slowest string
	turn := make(chan struct{}, 16)
	for _, args := range commands {
		name := strings.Join(args, " ")
		for about, address := range servers {
			args := slices.Clone(args)
			server := "http://" + address
			if strings.HasPrefix(about, "beanstalk") {
				server = "beanstalk://" + address
			}
			if name == "cluster backup" {
				dir := t.TempDir()
				relay(t, filepath.Join(dir, "cluster.sock"), address)
				args = append(args, filepath.Join(dir, "out"), "--dir", dir)
			}
			turn <- struct{}{}
			all.Go(func() {
				defer func() { <-turn }()
				p := &program{t: t, server: server, in: `{"tube":"a","body":""}` + "\n"}
				ctx, cancel := context.WithTimeout(t.Context(), daemon.Hang)
				defer cancel()
				began := time.Now()
				o := p.within(ctx, append(args, "--timeout", slowTimeoutFlag.String())...)
				took := time.Since(began)
				mu.Lock()
				defer mu.Unlock()
				if took > longest {
					longest, slowest = took, about+": "+name
				}
				// The machine may be busy.
				if took > 2**slowTimeoutFlag+5*time.Second {
					t.Errorf("%s: %s takes %v", about, name, took)
				}
				if o.code == client.OK && name == "check" {
					t.Errorf("%s: %s", about, o.stdout)
				}
			})
		}
	}
	all.Wait()
	t.Logf("the longest command took %v (%s), with a timeout of %v", longest, slowest, *slowTimeoutFlag)
}

// relay is a socket that leads to an address.
func relay(t *testing.T, socket, address string) {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); os.Remove(socket) })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			there, err := net.Dial("tcp", address)
			if err != nil {
				conn.Close()
				return
			}
			go func() {
				defer there.Close()
				_, _ = io.Copy(there, conn)
			}()
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, there)
			}()
		}
	}()
}
