package reactor

import (
	"crypto/tls"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"polystalk/router/session"
)

// connect returns both ends of an accepted connection that no session serves yet.
func connect(t *testing.T, network string) (client, server net.Conn) {
	t.Helper()
	if network == "unix" {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		var ends [2]net.Conn
		for i, fd := range fds {
			f := os.NewFile(uintptr(fd), "pair")
			if ends[i], err = net.FileConn(f); err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
		client, server = ends[0], ends[1]
	} else {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
			t.Fatal(err)
		}
		if server, err = l.Accept(); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { client.Close() })
	client.SetDeadline(time.Now().Add(20 * time.Second))
	return client, server
}

var elsewhere = session.Forwarded{Addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 9}}

func TestTakenConnectionIsServed(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		s := start(t, newReactor(t, Options{Loops: 2, MaxConnections: 3}), "tcp", "127.0.0.1:0")
		client, server := connect(t, network)
		if err := s.Take(server, s.front, elsewhere); err != nil {
			t.Fatal(err)
		}
		if !echoes(t, client) {
			t.Errorf("%s: not served", network)
		}
		if open, _ := s.Connections(); open != 1 {
			t.Errorf("%s: %d connections, want 1", network, open)
		}
		// After a half-close all input is replied to.
		io.WriteString(client, "?the rest")
		client.(interface{ CloseWrite() error }).CloseWrite()
		if got, err := io.ReadAll(client); err != nil || string(got) != "the rest" {
			t.Errorf("%s: %q, %v", network, got, err)
		}
		eventually(t, func() bool { open, _ := s.Connections(); return open == 0 })
		s.stop(t)
	}
}

func TestTakenConnectionsKeepTheLimit(t *testing.T) {
	s := start(t, newReactor(t, Options{Loops: 1, MaxConnections: 1}), "tcp", "127.0.0.1:0")
	in := s.dial(t)
	if !echoes(t, in) {
		t.Fatal("not served")
	}
	client, server := connect(t, "tcp")
	if err := s.Take(server, s.front, elsewhere); err != errFull {
		t.Errorf("one too many: %v, want %v", err, errFull)
	}
	if _, err := client.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("read %v, want the end", err)
	}
	if !echoes(t, in) {
		t.Error("who is in is served no more")
	}
	if n := s.host.Sums().Rejected[session.RejectedLimit]; n != 1 {
		t.Errorf("%d rejections were counted, want 1", n)
	}
	in.Close()
	eventually(t, func() bool { open, _ := s.Connections(); return open == 0 })
	client, server = connect(t, "tcp")
	if err := s.Take(server, s.front, elsewhere); err != nil || !echoes(t, client) {
		t.Errorf("within the limit again: %v, or not served", err)
	}
	s.stop(t)
}

// TestClientsComeWhileTheLoopsStart: a client that arrives while the event loops start is either
// served or refused: a new leader gets clients at any time.
func TestClientsComeWhileTheLoopsStart(t *testing.T) {
	for range 20 {
		r, front := newReactor(t, Options{Loops: 2}), new(echoFront)
		started := make(chan error, 1)
		go func() { started <- r.Start() }()
		client, server := connect(t, "tcp")
		for err := r.Take(server, front, elsewhere); err != nil; err = r.Take(server, front, elsewhere) {
			if err != errNotServing {
				t.Fatal(err)
			}
			client.Close()
			client, server = connect(t, "tcp")
		}
		if err := <-started; err != nil {
			t.Fatal(err)
		}
		if !echoes(t, client) {
			t.Error("not served")
		}
		client.Close()
		if err := r.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestPipeIsNotTaken: a loop cannot serve a connection without a descriptor.
func TestPipeIsNotTaken(t *testing.T) {
	s := start(t, newReactor(t, Options{Loops: 1, MaxConnections: 1}), "tcp", "127.0.0.1:0")
	_, server := net.Pipe()
	if err := s.Take(server, s.front, elsewhere); err == nil {
		t.Error("a pipe was taken")
	}
	if open, _ := s.Connections(); open != 0 {
		t.Errorf("%d connections, want none", open)
	}
	s.stop(t)
}

// TestOnlyAUnixSocketOfThisServerHasAUser: a forwarded client's connection comes from this process,
// whose user says nothing about the client.
func TestOnlyAUnixSocketOfThisServerHasAUser(t *testing.T) {
	for _, tt := range []struct {
		network string
		client  net.Addr
		has     bool
	}{{"unix", nil, true}, {"unix", elsewhere, false}, {"tcp", nil, false}} {
		_, server := connect(t, tt.network)
		f, err := server.(interface{ File() (*os.File, error) }).File()
		if err != nil {
			t.Fatal(err)
		}
		k := &socket{fd: int(f.Fd()), client: tt.client}
		if uid, ok := k.User(); ok != tt.has || ok && uid != uint32(os.Getuid()) {
			t.Errorf("%s, client %v: user %d, %v", tt.network, tt.client, uid, ok)
		}
		f.Close()
		server.Close()
	}
}

// TestStreamWithTLSIsTakenWithItsInput: the beginning of the stream was read before, and package tls
// has decrypted more than that.
func TestStreamWithTLSIsTakenWithItsInput(t *testing.T) {
	s := start(t, newReactor(t, Options{Loops: 2, MaxConnections: 3}), "tcp", "127.0.0.1:0")
	raw, server := connect(t, "tcp")
	stream := ServeTLS(server, testConfig())
	client := tls.Client(raw, &tls.Config{InsecureSkipVerify: true})
	go io.WriteString(client, "headerthe rest") // one record
	b := make([]byte, len("header"))
	if _, err := io.ReadFull(stream, b); err != nil || string(b) != "header" {
		t.Fatalf("%q, %v", b, err)
	}
	if err := s.Take(stream, s.front, elsewhere); err != nil {
		t.Fatal(err)
	}
	b = make([]byte, len("the rest"))
	if _, err := io.ReadFull(client, b); err != nil || string(b) != "the rest" {
		t.Fatalf("%q, %v", b, err)
	}
	if !echoes(t, client) {
		t.Error("not served any more")
	}
	client.CloseWrite()
	if got, err := io.ReadAll(client); err != nil || len(got) > 0 {
		t.Errorf("%q, %v, want the end", got, err)
	}
	eventually(t, func() bool { open, _ := s.Connections(); return open == 0 })
	s.stop(t)
}
