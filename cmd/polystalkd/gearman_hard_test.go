package main

import (
	"bufio"
	bits "encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"polystalk/codec/gearman"
)

// dialGearman opens a connection that is closed with the test.
func dialGearman(t *testing.T, address string) *gearmanConn {
	t.Helper()
	n, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	c := &gearmanConn{TCPConn: n.(*net.TCPConn), r: bufio.NewReader(n)}
	_ = c.SetDeadline(time.Now().Add(clientTime))
	t.Cleanup(func() { c.Close() })
	return c
}

// request makes a packet.
func request(kind gearman.Type, args ...string) []byte {
	var all [][]byte
	for _, a := range args {
		all = append(all, []byte(a))
	}
	return gearman.AppendRequest(nil, kind, all...)
}

// ask sends a request and wants this packet for an answer.
func (c *gearmanConn) ask(t *testing.T, request []byte, kind gearman.Type, body string) {
	t.Helper()
	if err := c.send(request); err != nil {
		t.Fatal(err)
	}
	c.hear(t, kind, body)
}

// hear wants this packet next.
func (c *gearmanConn) hear(t *testing.T, kind gearman.Type, body string) {
	t.Helper()
	head := make([]byte, gearman.HeaderSize)
	if _, err := io.ReadFull(c.r, head); err != nil {
		t.Fatalf("no %v: %v", kind, err)
	}
	got := make([]byte, bits.BigEndian.Uint32(head[8:]))
	if _, err := io.ReadFull(c.r, got); err != nil {
		t.Fatal(err)
	}
	if k := gearman.Type(bits.BigEndian.Uint32(head[4:])); k != kind || string(got) != body {
		t.Fatalf("got %v %.200q, want %v %.200q", k, got, kind, body)
	}
}

// list asks for a list, and returns its lines without the last.
func (c *gearmanConn) list(t *testing.T, command string) (lines []string) {
	t.Helper()
	if err := c.send([]byte(command + "\n")); err != nil {
		t.Fatal(err)
	}
	for {
		line, err := c.r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if line == ".\n" {
			return lines
		}
		lines = append(lines, line)
	}
}

// TestGearmanClientThatDoesNotReadIsCutOff: a worker sends data without end to a
// client that has stopped reading. The server holds so much and no more, cuts
// the client off, and goes on with its job and its worker.
func TestGearmanClientThatDoesNotReadIsCutOff(t *testing.T) {
	const (
		relayed = 64 << 20 // what router.relayedMax holds for a client
		most    = 1 << 30  // that is without end
	)
	for _, size := range []int{1 << 10, 60 << 10, 4 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			s, address := startGearman(t)
			admin := dialGearman(t, address)
			worker := dialGearman(t, address)
			deaf := dialGearman(t, address)
			deaf.ask(t, request(gearman.SubmitJob, "f", "u", ""), gearman.JobCreated, "H:lap:1")
			if err := worker.send(request(gearman.CanDo, "f")); err != nil {
				t.Fatal(err)
			}
			worker.ask(t, request(gearman.GrabJob), gearman.JobAssign, "H:lap:1\x00f\x00")
			was := memory(s)

			data := request(gearman.WorkData, "H:lap:1", strings.Repeat("d", size))
			for len(data) < 1<<20 {
				data = append(data, data...)
			}
			sent, after := 0, 0
			for sent < most && after < 2*relayed {
				// Who reads what it is told is not overtaken: an echo now and then.
				if err := worker.send(data); err != nil {
					t.Fatal(err)
				}
				worker.ask(t, request(gearman.EchoReq, "x"), gearman.EchoRes, "x")
				sent += len(data)
				if len(admin.list(t, "workers")) == 2 {
					after += len(data)
				}
				// What is held, as much again on its way, and the collector's share.
				bounded(t, s, was, 4*relayed)
			}
			if after == 0 {
				t.Fatalf("the client has not been cut off after %d MiB", sent>>20)
			}
			n, err := io.Copy(io.Discard, deaf.r)
			if sent-after < relayed/2 || n > relayed+relayed/2 {
				t.Errorf("cut off after %d bytes were sent, of which it got %d: want about %d", sent-after, n, relayed)
			}
			t.Logf("cut off after %d MiB, of which it gets %d (%v); memory %d MiB, before %d", (sent-after)>>20, n>>20, err, memory(s)>>20, was>>20)

			// The job went on, unheard, and ends well; its worker is served.
			if lines := admin.list(t, "status"); len(lines) != 1 || lines[0] != "f\t1\t1\t1\n" {
				t.Errorf("status says %q", lines)
			}
			worker.ask(t, append(request(gearman.WorkComplete, "H:lap:1", "r"), request(gearman.GrabJob)...), gearman.NoJob, "")
			admin.ask(t, request(gearman.SubmitJob, "f", "u", "again"), gearman.JobCreated, "H:lap:2")
			worker.ask(t, request(gearman.GrabJob), gearman.JobAssign, "H:lap:2\x00f\x00again")
			if err := worker.send(request(gearman.WorkComplete, "H:lap:2", "r")); err != nil {
				t.Fatal(err)
			}
			admin.hear(t, gearman.WorkComplete, "H:lap:2\x00r")
		})
	}
}
