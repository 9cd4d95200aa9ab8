package wire

import (
	"fmt"
	"os"
	"regexp"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/wiretest"
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
	if os.Getenv("POLYSTALKD_BIN") != "" {
		t.Skip("somebody else's server is in no cluster")
	}
	all, err := wiretest.Transcripts()
	if err != nil {
		t.Fatal(err)
	}
	byName := make(map[string]*wiretest.Transcript)
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
				d := &journaled{wiretest.NetDriver{Network: "tcp", Address: address}}
				if byName[name] == nil {
					t.Fatalf("there is no transcript %q", name)
				}
				if err := wiretest.Play(byName[name], d, wiretest.Options{}); err != nil {
					t.Error(err)
				}
				d.Shutdown()
			}
		})
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
