package process

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/conversation"
)

// startLogged runs the daemon with a journal in dir.
func startLogged(t *testing.T, dir string, args ...string) *daemon.Server {
	t.Helper()
	return daemon.Serve(t, append([]string{"-b", dir}, args...)...)
}

// fields returns the values of a reply in YAML, without quotes.
func fields(reply string) map[string]string {
	m := make(map[string]string)
	for line := range strings.SplitSeq(reply, "\n") {
		if key, value, ok := strings.Cut(line, ": "); ok {
			m[key] = strings.Trim(value, `"`)
		}
	}
	return m
}

// A sighting is a server's description of a job.
type sighting struct {
	stats map[string]string
	body  string
}

// shape returns the properties of a job that must not change by themselves: stats-job without
// values that depend on the time or the file.
func (s *sighting) shape() string {
	var b strings.Builder
	for _, key := range []string{"tube", "state", "pri", "delay", "ttr", "reserves", "timeouts", "releases", "buries", "kicks"} {
		fmt.Fprintf(&b, "%s=%s ", key, s.stats[key])
	}
	fmt.Fprintf(&b, "body=%d:%.40q", len(s.body), s.body)
	return b.String()
}

// see returns the jobs that exist.
func see(t *testing.T, c *conversation.Client, ids []uint64) map[uint64]*sighting {
	t.Helper()
	found := make(map[uint64]*sighting)
	for chunk := range slices.Chunk(ids, 2000) {
		var ask bytes.Buffer
		for _, id := range chunk {
			fmt.Fprintf(&ask, "peek %d\r\nstats-job %d\r\n", id, id)
		}
		fed := daemon.Feed(c, ask.Bytes())
		for _, id := range chunk {
			job, err := c.Reply(conversation.Patience)
			must(t, err)
			stats, err := c.Reply(conversation.Patience)
			must(t, err)
			head, body, _ := bytes.Cut(job, []byte("\r\n"))
			if string(head) == "NOT_FOUND" && string(stats) == "NOT_FOUND\r\n" {
				continue
			}
			if !bytes.HasPrefix(head, fmt.Appendf(nil, "FOUND %d ", id)) || !bytes.HasPrefix(stats, []byte("OK ")) {
				t.Fatalf("job %d: %.60q, %.60q", id, job, stats)
			}
			found[id] = &sighting{fields(string(stats)), string(bytes.TrimSuffix(body, []byte("\r\n")))}
		}
		must(t, <-fed)
	}
	return found
}

// upTo returns the ids 1 to n.
func upTo(n uint64) (ids []uint64) {
	for id := range n {
		ids = append(ids, id+1)
	}
	return ids
}

// sameJobs compares two sightings of the same jobs. No job may become due in between.
func sameJobs(t *testing.T, got, want map[uint64]*sighting) {
	t.Helper()
	for id, w := range want {
		g := got[id]
		if g == nil {
			t.Errorf("job %d is lost: %s", id, w.shape())
			continue
		}
		if g.shape() != w.shape() || g.body != w.body {
			t.Errorf("job %d was\n\t%s, is\n\t%s", id, w.shape(), g.shape())
		}
	}
	for id, g := range got {
		if want[id] == nil {
			t.Errorf("job %d is there, and should not be: %s", id, g.shape())
		}
	}
}

// segments returns the journal's files in dir.
func segments(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "journal.*"))
	must(t, err)
	return names
}

// contents returns the files of dir with a prefix: bytes by name.
func contents(t *testing.T, dir, prefix string) map[string]string {
	t.Helper()
	m := make(map[string]string)
	names, err := filepath.Glob(filepath.Join(dir, prefix+"*"))
	must(t, err)
	for _, name := range names {
		b, err := os.ReadFile(name)
		must(t, err)
		m[filepath.Base(name)] = string(b)
	}
	return m
}

// putN puts n jobs in one write and expects each to be acknowledged. It returns the last id.
func putN(t *testing.T, c *conversation.Client, n int, command string) (last uint64) {
	t.Helper()
	fed := daemon.Feed(c, bytes.Repeat([]byte(command), n))
	for range n {
		reply, err := c.Reply(conversation.Patience)
		must(t, err)
		if _, err := fmt.Sscanf(string(reply), "INSERTED %d\r\n", &last); err != nil {
			t.Fatalf("put: %q", reply)
		}
	}
	must(t, <-fed)
	return last
}
