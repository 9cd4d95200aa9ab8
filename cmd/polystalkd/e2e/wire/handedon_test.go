package wire

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/wiretest"
)

// handedOn are the transcripts in which it matters how bytes come, and how connections end.
var handedOn = []string{
	"disconnect", "half-close", "long-lines", "odd-bytes", "prefixes", "put-errors", "put-too-big", "quit", "stats", "waiters",
}

// TestTranscriptsHandedOn plays written conversations with a server that hands its clients on to
// the one that leads: that says what one server says which is alone.
func TestTranscriptsHandedOn(t *testing.T) {
	if os.Getenv("POLYSTALKD_BIN") != "" {
		t.Skip("somebody else's server is in no cluster")
	}
	all, err := wiretest.Transcripts()
	if err != nil {
		t.Fatal(err)
	}
	played := 0
	for _, tr := range all {
		if !slices.Contains(handedOn, tr.Name) {
			continue
		}
		played++
		t.Run(tr.Name, func(t *testing.T) {
			t.Parallel()
			d := &journaled{wiretest.NetDriver{Network: "tcp", Address: daemon.Follower(t).Beanstalk}}
			defer d.Shutdown()
			if err := wiretest.Play(tr, d, wiretest.Options{}); err != nil {
				t.Error(err)
			}
		})
	}
	if played != len(handedOn) {
		t.Errorf("%d transcripts were played of %d", played, len(handedOn))
	}
}

// A journaled server shows what it has on its disk, where the transcripts are of one that has none.
type journaled struct{ wiretest.NetDriver }

var (
	onDisk   = regexp.MustCompile(`\n(file|binlog-oldest-index|binlog-current-index|binlog-records-[a-z]+): \d+`)
	yamlHead = regexp.MustCompile(`^OK \d+\r\n(---\n)`)
)

// Recv implements wiretest.Driver.
func (j *journaled) Recv(conn string, wait bool) ([]byte, error) {
	b, err := j.NetDriver.Recv(conn, wait)
	b = onDisk.ReplaceAll(b, []byte("\n$1: 0"))
	if m := yamlHead.FindSubmatchIndex(b); m != nil {
		b = append(fmt.Appendf(nil, "OK %d\r\n", len(b)-m[2]-len("\r\n")), b[m[2]:]...)
	}
	return b, err
}
