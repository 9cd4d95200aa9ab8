package wire

import (
	bits "encoding/binary"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/gearman"
)

// TestGearmanClientThatDoesNotReadIsCutOff: a worker sends data without end to a client
// that has stopped reading. The server holds a bounded part of it, closes the client's
// connection, and continues its job.
func TestGearmanClientThatDoesNotReadIsCutOff(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	const (
		relayed = 64 << 20 // bytes that are kept for a client
		most    = 1 << 30  // bytes without end
	)
	for _, tt := range []struct {
		size   int // bytes of a report
		copies int // submissions of the client: each gets the report
	}{{1 << 10, 1}, {60 << 10, 1}, {4 << 20, 1}, {60 << 10, 10000}} {
		t.Run(fmt.Sprintf("%d*%d", tt.copies, tt.size), func(t *testing.T) {
			s, address := daemon.StartGearman(t, "--gearman-max-unread", strconv.Itoa(relayed))
			admin := daemon.DialGearman(t, address)
			worker := daemon.DialGearman(t, address)
			deaf := daemon.DialGearman(t, address)
			if err := deaf.Send([]byte(strings.Repeat(daemon.Request(gearman.SubmitJob, "f", "u", ""), tt.copies))); err != nil {
				t.Fatal(err)
			}
			for range tt.copies {
				deaf.Hear(t, gearman.JobCreated, "H:lap:1")
			}
			if err := worker.Send([]byte(daemon.Request(gearman.CanDo, "f"))); err != nil {
				t.Fatal(err)
			}
			worker.Ask(t, daemon.Request(gearman.GrabJob), gearman.JobAssign, "H:lap:1\x00f\x00")
			was := daemon.Memory(s)

			data := []byte(daemon.Request(gearman.WorkData, "H:lap:1", strings.Repeat("d", tt.size)))
			for tt.copies == 1 && len(data) < 1<<20 {
				data = append(data, data...)
			}
			sent, after := 0, 0
			for sent < most && after < 2*relayed {
				if err := worker.Send(data); err != nil {
					t.Fatal(err)
				}
				worker.Ask(t, daemon.Request(gearman.EchoReq, "x"), gearman.EchoRes, "x")
				sent += len(data) * tt.copies
				if len(admin.List(t, "workers")) == 2 {
					after += len(data) * tt.copies
				}
				// What is held, as much again on its way, and the collector's share.
				if daemon.Bounded(t, s, was, 4*relayed); t.Failed() {
					t.FailNow()
				}
			}
			if after == 0 {
				t.Fatalf("the client has not been cut off after %d MiB", sent>>20)
			}
			n, err := io.Copy(io.Discard, deaf.R)
			if sent < relayed/2 || n > relayed+relayed/2 {
				t.Errorf("%d bytes were sent, of which it got %d until it was cut off: want about %d", sent, n, relayed)
			}
			t.Logf("cut off after %d MiB, of which it gets %d (%v); memory %d MiB, before %d", (sent-after)>>20, n>>20, err, daemon.Memory(s)>>20, was>>20)

			// The job went on, unheard, and ends well; its worker is served.
			if lines := admin.List(t, "status"); len(lines) != 1 || lines[0] != "f\t1\t1\t1\n" {
				t.Errorf("status says %q", lines)
			}
			worker.Ask(t, daemon.Request(gearman.WorkComplete, "H:lap:1", "r")+daemon.Request(gearman.GrabJob), gearman.NoJob, "")
			admin.Ask(t, daemon.Request(gearman.SubmitJob, "f", "u", "again"), gearman.JobCreated, "H:lap:2")
			worker.Ask(t, daemon.Request(gearman.GrabJob), gearman.JobAssign, "H:lap:2\x00f\x00again")
			if err := worker.Send([]byte(daemon.Request(gearman.WorkComplete, "H:lap:2", "r"))); err != nil {
				t.Fatal(err)
			}
			admin.Hear(t, gearman.WorkComplete, "H:lap:2\x00r")
		})
	}
}

// header returns the header of a request of any type and length.
func header(kind, size uint32) string {
	b := bits.BigEndian.AppendUint32([]byte("\x00REQ"), kind)
	return string(bits.BigEndian.AppendUint32(b, size))
}

// TestGearmanTakesNoMemoryForALength: packets announce the largest size, and bring only
// some bytes.
func TestGearmanTakesNoMemoryForALength(t *testing.T) {
	s, address := daemon.StartGearman(t)
	other := daemon.DialGearman(t, address)
	other.Ask(t, daemon.Request(gearman.EchoReq, "x"), gearman.EchoRes, "x")
	was := daemon.Memory(s)
	const most = 64 << 20
	begin := map[uint32]string{7: "f\x00u\x00begin", 16: "begin", 13: "H:lap:9\x00begin", 9: "begin", 36: "f\x00\x000\x00begin", 38: "f\x00u\x00r\x00\x00begin"}
	var open []*daemon.GearmanConn
	for range 30 { // of 6 kinds, with 64 MiB each
		for kind, body := range begin {
			c := daemon.DialGearman(t, address)
			if err := c.Send([]byte(header(kind, most) + body)); err != nil {
				t.Fatal(err)
			}
			open = append(open, c)
		}
	}
	for kind := range begin {
		over := daemon.DialGearman(t, address)
		over.Ask(t, header(kind, most+1), gearman.Error, "DATA_TOO_LARGE\x00Packet too large")
		over.Ends(t, "an announcement")
	}
	for end := time.Now().Add(daemon.Hang); ; time.Sleep(time.Millisecond) { // the last ones may not be accepted yet
		if n := len(other.List(t, "workers")); n == len(open)+1 {
			break
		} else if time.Now().After(end) {
			t.Fatalf("%d connections are open, want %d", n, len(open)+1)
		}
	}
	daemon.Bounded(t, s, was, 64<<20)
	for _, c := range open {
		c.Close()
	}
	for len(other.List(t, "workers")) > 1 {
		time.Sleep(time.Millisecond)
	}
	if lines := other.List(t, "status"); len(lines) > 0 {
		t.Errorf("status says %q", lines)
	}
}
