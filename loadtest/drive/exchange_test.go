package drive

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
)

// loopback returns the two ends of a connection.
func loopback(t *testing.T) (client, server net.Conn) {
	t.Helper()
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
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

// Answers that come at once must not be missed: many short round trips.
func TestExchangeMissesNoAnswer(t *testing.T) {
	client, server := loopback(t)
	go io.Copy(server, server)
	x, err := newExchange(client)
	if err != nil {
		t.Fatal(err)
	}
	in := make([]byte, 16)
	for i := range 20000 {
		out := []byte{byte(i), byte(i >> 8)}
		written, read, err := x.run(out, in)
		if err != nil || written != 2 || read < 1 {
			t.Fatalf("round %d: wrote %d, read %d, %v", i, written, read, err)
		}
		if _, err := io.ReadFull(client, in[read:2]); err != nil || !bytes.Equal(in[:2], out) {
			t.Fatalf("round %d: sent %v, got %v, %v", i, out, in[:2], err)
		}
	}
}

// What the kernel does not take at once is left for Write.
func TestExchangeReturnsWhenTheKernelIsFull(t *testing.T) {
	client, _ := loopback(t)
	x, err := newExchange(client)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]byte, 64<<20)
	written, read, err := x.run(out, make([]byte, 1))
	if err != nil || written <= 0 || written >= len(out) || read != 0 {
		t.Errorf("wrote %d of %d, read %d, %v", written, len(out), read, err)
	}
}

func TestExchangeEndsWithTheConnection(t *testing.T) {
	client, server := loopback(t)
	x, err := newExchange(client)
	if err != nil {
		t.Fatal(err)
	}
	server.Close()
	if _, read, _ := x.run([]byte("x"), make([]byte, 8)); read != 0 {
		t.Errorf("read %d bytes of a closed connection", read)
	}
	client.Close()
	if _, _, err := x.run([]byte("x"), make([]byte, 8)); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("error %v after Close", err)
	}
}

// A batch bigger than all buffers, answered only when it has been sent whole.
func TestAskSendsWhatTheKernelLeft(t *testing.T) {
	client, server := loopback(t)
	const size = 8 << 20
	go func() {
		if n, err := io.CopyN(io.Discard, server, size); n == size && err == nil {
			io.WriteString(server, "DELETED\r\n")
		}
	}()
	x, err := newExchange(client)
	if err != nil {
		t.Fatal(err)
	}
	k := &Link{NC: client, exchange: x, in: make([]byte, 64), Out: make([]byte, size)}
	if err := k.Ask(); err != nil {
		t.Fatal(err)
	}
	const answer = "DELETED\r\n"
	for len(k.Unread()) < len(answer) {
		if err := k.Receive(len(answer)); err != nil {
			t.Fatal(err)
		}
	}
	if string(k.Unread()) != answer || len(k.Out) != 0 {
		t.Errorf("%q, %d bytes left to send", k.Unread(), len(k.Out))
	}
}
