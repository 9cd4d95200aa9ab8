package bench

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
)

// A line of a scripted server: when it has received ask, it sends reply. An empty reply closes the
// connection.
type line struct{ ask, reply string }

// play serves one connection with a script, and then waits for its end.
func play(t *testing.T, script []line) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		got, more := "", make([]byte, 4096)
		for i := 0; err == nil; {
			if i < len(script) && strings.Contains(got, script[i].ask) {
				if script[i].reply == "" {
					return
				}
				_, err = c.Write([]byte(script[i].reply))
				_, got, _ = strings.Cut(got, script[i].ask)
				i++
				continue
			}
			var n int
			n, err = c.Read(more)
			got += string(more[:n])
		}
	}()
	return l.Addr().String()
}

// scripts have a job of 64 bytes for each peer, as its server answers.
func scripts() map[string][]line {
	body := newBody(64)
	redis := []line{
		{"LPUSH\r\n$7\r\nlt.jobs\r\n$64\r\n" + string(body), ":1\r\n"},
		{"*5\r\n$5\r\nLMOVE", "$64\r\n" + string(body) + "\r\n"},
		{"*4\r\n$4\r\nLREM\r\n$12\r\nlt.working.0\r\n$1\r\n1\r\n$64\r\n" + string(body), ":1\r\n"},
	}
	msg := func(rest, data string) string { return fmt.Sprintf("MSG %s %d\r\n%s\r\n", rest, len(data), data) }
	nats := []line{
		{"", "INFO {\"version\":\"2.15.2\"}\r\n"},
		{"PING\r\n", "PONG\r\n"},
		{`"retention":"workqueue"`, "PING\r\n" + msg("_INBOX.0 1", `{"type":"created"}`)},
		{`"durable_name"`, msg("_INBOX.0 1", `{"type":"created"}`)},
		{"PUB lt.jobs _INBOX.0 64\r\n" + string(body), msg("_INBOX.0 1", `{"stream":"lt","seq":1}`)},
		{"MSG.NEXT", msg("lt.jobs 1 $JS.ACK.lt.lt.1.1.1.7.0", string(body))},
		{"PUB $JS.ACK.lt.lt.1.1.1.7.0 _INBOX.0 4\r\n+ACK\r\n", msg("_INBOX.0 1", "")},
	}
	method := func(m uint32, args ...any) string { return string(amqpFrame(nil, 1, m, args...)) }
	asked := func(m uint32) string { return string([]byte{byte(m >> 24), byte(m >> 16), byte(m >> 8), byte(m)}) }
	content := string(amqpEnvelope(nil, 2, 1, append([]byte{0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 64}, 0, 0)))
	content += string(amqpEnvelope(nil, 3, 1, body[:40])) + string(amqpEnvelope(nil, 3, 1, body[40:]))
	delivery := func(tag uint64) string {
		return method(amqpDeliver, "worker", tag, byte(0), "", amqpQueue) + content
	}
	amqp := []line{
		{amqpGreeting, method(amqpStart, byte(0), byte(9), []byte{}, []byte("PLAIN"), []byte("en_US"))},
		{"\x00guest\x00guest", method(amqpTune, uint16(2047), uint32(128<<10), uint16(60))},
		{asked(amqpOpen), method(amqpOpen+1, "")},
		{asked(amqpChannel), method(amqpChannel+1, []byte{})},
		{asked(amqpConfirms), method(amqpConfirms + 1)},
		{asked(amqpQos), method(amqpQos + 1)},
		{asked(amqpDeclare), method(amqpDeclare+1, amqpQueue, uint32(0), uint32(0))},
		{asked(amqpConsume), method(amqpConsume+1, "worker")},
		{string(body), delivery(7) + method(amqpAck, uint64(1), byte(0))},
		{asked(amqpAck) + "\x00\x00\x00\x00\x00\x00\x00\x07", delivery(8)}, // another connection's job
		{asked(amqpCancel), method(amqpCancel+1, "worker")},
	}
	return map[string][]line{"redis": redis, "nats": nats, "amqp": amqp}
}

// playJobs runs one job against a script.
func playJobs(t *testing.T, peer string, script []line) error {
	l := small(t, beanstalkd, "job conns=1 count=1")
	l.Protocol, l.Warmup = peer, 0
	r, err := drive(t.Context(), plan{Load: l, Addr: play(t, script), Throwaway: true})
	if err == nil && r.Ops != 1 {
		return fmt.Errorf("%d jobs, want 1", r.Ops)
	}
	return err
}

func TestAJobOfEachPeerIsPutTakenAndAcknowledged(t *testing.T) {
	for peer, script := range scripts() {
		if err := playJobs(t, peer, script); err != nil {
			t.Errorf("%s: %v", peer, err)
		}
	}
}

func TestWrongRepliesOfPeersFailLoudly(t *testing.T) {
	other := strings.Repeat("x", 64)
	for _, tt := range []struct {
		peer  string
		at    int // the line of the script with the wrong reply
		reply string
		want  string
	}{
		{"redis", 0, "-OOM command not allowed\r\n", "OOM"},
		{"redis", 1, "$-1\r\n", `got "$-1"`},
		{"redis", 1, "$64\r\n" + other + "\r\n", "another body"},
		{"redis", 1, "$9999999999\r\n", "malformed"},
		{"redis", 2, ":0\r\n", `removed "0" jobs`},
		{"redis", 2, "", "closed"},
		{"nats", 1, "-ERR 'Authorization Violation'\r\n", "Authorization"},
		{"nats", 2, "MSG _INBOX.0 1 25\r\n{\"error\":{\"code\":503}}...\r\n", "refused STREAM.CREATE"},
		{"nats", 4, "MSG _INBOX.0 1 30\r\n{\"stream\":\"lt\",\"error\":\"full\"}\r\n", "refused a job"},
		{"nats", 5, "HMSG _INBOX.0 1 28 28\r\nNATS/1.0 404 No Messages\r\n\r\n\r\n", "404"},
		{"nats", 5, "MSG lt.jobs 1 $JS.ACK 64\r\n" + other + "\r\n", "another body"},
		{"nats", 5, "MSG lt.jobs x\r\n", "malformed"},
		{"nats", 6, "MSG _INBOX.0 1 3\r\n-NO\r\n", "refused an acknowledgement"},
		{"nats", 6, "", "closed"},
		{"amqp", 1, string(amqpFrame(nil, 0, amqpClose, uint16(403), "ACCESS_REFUSED")), "ACCESS_REFUSED"},
		{"amqp", 2, "HTTP/1.1 400 Bad Request\r\n\r\n", "malformed"},
		{"amqp", 6, string(amqpFrame(nil, 1, amqpChanClose, uint16(406), "PRECONDITION_FAILED")), "PRECONDITION_FAILED"},
		{"amqp", 8, string(amqpFrame(nil, 1, amqpNack, uint64(1), byte(0))), "method 60.120"},
		{"amqp", 8, string(amqpFrame(nil, 1, amqpAck, byte(1))), "malformed"},
		{"amqp", 8, string(amqpFrame(nil, 1, amqpDeliver, "a long name of a consumer")), "malformed"},
		{"amqp", 8, "\x02\x00\x01\x00\x00\x00\x02\x00\x3c\xce", "malformed"},
		{"amqp", 8, "\x01\x00\x01\xff\xff\xff\xff", "malformed"},
		{"amqp", 10, "", "closed"},
	} {
		script := slices.Clone(scripts()[tt.peer])
		script[tt.at].reply = tt.reply
		if err := playJobs(t, tt.peer, script); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: reply %q: error %v, want one with %q", tt.peer, tt.reply, err, tt.want)
		}
	}
}

// Messages arrive in pieces: parse uses whole messages only.
func TestPeersWaitForWholeMessages(t *testing.T) {
	n, a := &natsJobs{Conn: &Conn{}}, &amqpJobs{Conn: &Conn{}}
	for peer, parse := range map[string]func([]byte) (int, error){"nats": n.parse, "amqp": a.frame} {
		for _, l := range scripts()[peer] {
			for all := []byte(l.reply); len(all) > 0; {
				size, err := parse(all)
				if err != nil || size == 0 {
					t.Fatalf("%s: %q: %d, %v", peer, all, size, err)
				}
				for i := range size {
					if k, err := parse(all[:i]); k != 0 || err != nil {
						t.Errorf("%s: %q is incomplete: %d, %v", peer, all[:i], k, err)
					}
				}
				all = all[size:]
			}
		}
	}
	if _, err := a.frame([]byte("\x01\x00\x01\x00\x00\x00\x04\x00\x3c\x00\x50x")); !errors.Is(err, ErrMalformed) {
		t.Errorf("a frame without its end: error %v", err)
	}
}
