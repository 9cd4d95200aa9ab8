package wire

import (
	"fmt"
	"net"
	"os"
	"regexp"
	"strconv"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/conversation"
)

// handedOn are the transcripts in which it matters how bytes come, and how connections end, by the
// servers that they are played with. What is first in a group may show what a server has done
// before, which is nothing; the rest of it does not.
var handedOn = [][]string{
	{"disconnect", "long-lines", "odd-bytes", "quit"}, {"half-close"}, {"prefixes"}, {"put-errors"}, {"put-too-big"}, {"stats"}, {"waiters"},
}

// TestTranscriptsHandedOn plays written conversations with a server that hands its clients on to
// the one that leads: that says what one server says which is alone.
func TestTranscriptsHandedOn(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	if os.Getenv("POLYSTALKD_BIN") != "" {
		t.Skip("somebody else's server is in no cluster")
	}
	all, err := conversation.Transcripts()
	if err != nil {
		t.Fatal(err)
	}
	byName := make(map[string]*conversation.Transcript)
	for _, tr := range all {
		byName[tr.Name] = tr
	}
	for i, group := range handedOn {
		t.Run(group[0], func(t *testing.T) {
			place := daemon.StandBy
			if i == 0 {
				place = daemon.Follower // which takes longer to start
			}
			address := place(t).Beanstalk
			for _, name := range group {
				d := &journaled{conversation.NetDriver{Network: "tcp", Address: address}}
				if byName[name] == nil {
					t.Fatalf("there is no transcript %q", name)
				}
				if err := conversation.Play(byName[name], d, conversation.Options{}); err != nil {
					t.Error(err)
				}
				d.Shutdown()
			}
		})
	}
}

// A journaled server has a journal, and the transcripts come from a server without one. The
// driver replaces the journal's figures in the statistics by zeros.
type journaled struct{ conversation.NetDriver }

var (
	onDisk = regexp.MustCompile(`\n(file|binlog-oldest-index|binlog-current-index|binlog-records-[a-z]+): \d+`)
	// statsHead is the head of a reply in YAML, or of any other reply with a body.
	statsHead = regexp.MustCompile(`(?m)^OK (\d+)\r\n`)
	// headBegun is the beginning of such a head at the end of what has arrived.
	headBegun = regexp.MustCompile(`(^|\n)O(K( \d*\r?)?)?$`)
)

// Recv implements conversation.Driver. One reply may arrive in several reads, so Recv reads on
// until the last reply with a body is complete.
func (j *journaled) Recv(conn string, wait bool) ([]byte, error) {
	b, err := j.NetDriver.Recv(conn, wait)
	for err == nil && !complete(b) {
		more, e := j.NetDriver.Recv(conn, true)
		if err = e; len(more) == 0 {
			break
		}
		b = append(b, more...)
	}
	return withoutJournal(b), err
}

// complete reports whether b ends where a reply ends, as far as replies with a body go.
func complete(b []byte) bool {
	heads := statsHead.FindAllSubmatchIndex(b, -1)
	if len(heads) == 0 {
		return !headBegun.Match(b)
	}
	last := heads[len(heads)-1]
	n, _ := strconv.Atoi(string(b[last[2]:last[3]]))
	end := last[1] + n + len("\r\n")
	return len(b) >= end && !headBegun.Match(b[end:])
}

// withoutJournal returns b with zeros for the journal's figures and with the lengths that follow.
func withoutJournal(b []byte) []byte {
	var out []byte
	for {
		head := statsHead.FindSubmatchIndex(b)
		if head == nil {
			return append(out, b...)
		}
		n, _ := strconv.Atoi(string(b[head[2]:head[3]]))
		end := min(head[1]+n, len(b))
		body := onDisk.ReplaceAll(b[head[1]:end], []byte("\n$1: 0"))
		out = append(out, b[:head[0]]...)
		out = append(fmt.Appendf(out, "OK %d\r\n", n-(end-head[1])+len(body)), body...)
		b = b[end:]
	}
}

// A server may deliver a reply in pieces of any size. The driver's result does not depend on them.
func TestJournalFiguresAreReplacedHoweverARepliesBytesArrive(t *testing.T) {
	const body, want = "---\nfile: 123\nbinlog-current-index: 7\nid: 1\n", "---\nfile: 0\nbinlog-current-index: 0\nid: 1\n"
	whole := fmt.Sprintf("INSERTED 1\r\nOK %d\r\n%s\r\nNOT_FOUND\r\n", len(body), body)
	for cut := range len(whole) {
		near, far := net.Pipe()
		go func() {
			far.Write([]byte(whole[:cut]))
			far.Write([]byte(whole[cut:]))
			far.Close()
		}()
		j := &journaled{}
		j.Use("a", near)
		var got []byte
		for {
			b, err := j.Recv("a", true)
			got = append(got, b...)
			if err != nil {
				break
			}
		}
		near.Close()
		if w := fmt.Sprintf("INSERTED 1\r\nOK %d\r\n%s\r\nNOT_FOUND\r\n", len(want), want); string(got) != w {
			t.Errorf("cut after %d bytes: %q, want %q", cut, got, w)
		}
	}
}
