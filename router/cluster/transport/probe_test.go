package transport

import (
	"bufio"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

func TestGreetNamesTheServer(t *testing.T) {
	forBoth(t, func(t *testing.T, a, b *node) {
		ctx, cancel := context.WithTimeout(t.Context(), ample)
		defer cancel()
		for _, from := range []Identity{a.Self(), b.Self()} {
			if got, err := Greet(ctx, b.Addr().String(), from); err != nil || got != b.Self() {
				t.Errorf("to %v it is %v, %v", from, got, err)
			}
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := Greet(ctx, answering(t, ""), Identity{cluster, 1, "n1"}); !errors.Is(err, ErrSilent) {
		t.Errorf("of a silent port it says %v", err)
	}
}

// answering listens, and answers each line; with an empty answer it does not reply.
func answering(t *testing.T, answer string) string {
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
				in := bufio.NewReader(c)
				for {
					if _, err := in.ReadString('\n'); err != nil {
						return
					}
					c.Write([]byte(answer))
				}
			}()
		}
	}()
	return l.Addr().String()
}

// An operator may give a port of another protocol as the address of a server.
func TestOtherPortsAreNamed(t *testing.T) {
	a := newNode(t, 1, func(x *Transport) { x.within.greet = 100 * time.Millisecond })
	for answer, want := range map[string]string{
		"UNKNOWN_COMMAND\r\n":                            "a port for beanstalkd's clients: give the address of --cluster-listen",
		"ERR UNKNOWN_COMMAND Unknown+server+command\r\n": "a port for Gearman's clients: give the address of --cluster-listen",
		"HTTP/1.1 400 Bad Request\r\n\r\n":               "a port for HTTP: give the address of --cluster-listen",
		"220 mail.example.com\r\n":                       "does not answer as a server of a cluster",
	} {
		_, err := a.OpenAddr(t.Context(), answering(t, answer), Admin)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", answer, err, want)
		}
	}
}

// A process may only ask whether another process has its identity.
func TestOnlyAdminComesFromTheNodeItself(t *testing.T) {
	forBoth(t, func(t *testing.T, a, _ *node) {
		s, err := a.OpenAddr(t.Context(), a.Addr().String(), Admin)
		if err != nil || s.Remote() != a.Self() {
			t.Fatalf("it cannot ask: %v", err)
		}
		s.Close()
		if _, err := a.OpenAddr(t.Context(), a.Addr().String(), Forward); err == nil || !strings.Contains(err.Error(), "copies of a directory") {
			t.Errorf("another kind: %v", err)
		}
	})
}
