package snapshot

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"polystalk/codec/binlog"
	"polystalk/router/cluster"
	"polystalk/router/cluster/transport"
	"polystalk/shard/wal"
	"polystalk/shard/wal/fakedisk"
)

// writeJournal writes a journal to a directory, and sends it to a writer that is not nil.
func writeJournal(t *testing.T, d wal.Disk, jobs int, to io.Writer) {
	t.Helper()
	j := openJournal(t, d)
	j.put(jobs, 10)
	if to != nil {
		p := j.Pin()
		defer p.Release()
		if _, err := Send(context.Background(), to, p, SendOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// files returns the contents of the files of a directory.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(b)
	}
	return all
}

// write writes a file of a directory.
func write(t *testing.T, dir, name, what string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(what), 0o600); err != nil {
		t.Fatal(err)
	}
}

// RecoverAlone removes the files of a member, and finishes an exchange that had begun.
func TestRecoverAlone(t *testing.T) {
	dir := t.TempDir()
	writeJournal(t, wal.Dir(dir), 7, nil)
	want := files(t, dir)
	for name := range want {
		os.Rename(filepath.Join(dir, name), filepath.Join(dir, strings.Replace(name, "journal", "incoming", 1)))
	}
	for _, name := range []string{"exchange.cleared", cluster.StateName, cluster.StateName + ".new", "exchange.note"} {
		write(t, dir, name, "votes")
	}
	if _, err := RecoverAlone(t.Context(), dir, false); err == nil || !strings.Contains(err.Error(), "cluster.state cannot be read") {
		t.Errorf("without a list of the servers the error is %v", err)
	}
	a, err := RecoverAlone(t.Context(), dir, true)
	if err != nil {
		t.Fatal(err)
	}
	if a.Batches < 7 || a.LastIndex != uint64(a.Batches) || a.LastTerm != 1 {
		t.Errorf("%+v", a)
	}
	for _, word := range []string{dir, "polystalkd -b", "never", "--cluster-new", "of term 1,"} {
		if !strings.Contains(a.Meaning(dir), word) {
			t.Errorf("the text lacks %s: %s", word, a.Meaning(dir))
		}
	}
	got := files(t, dir)
	delete(got, "lock")
	if !maps.Equal(got, want) {
		t.Errorf("the directory holds %q", slices.Sorted(maps.Keys(got)))
	}
	if _, err := RecoverAlone(t.Context(), dir, false); err == nil || !strings.Contains(err.Error(), "is not the directory of a cluster's server") {
		t.Errorf("once more: %v", err)
	}
}

// While this server and those that answer are a majority, recovery is refused: nothing is lost.
func TestRecoverAloneRefusesWhileAMajorityAnswers(t *testing.T) {
	const of = 0xc1
	for _, tt := range []struct {
		name                     string
		voters, answers, strange int // of the others; strange ones listen at the addresses of members
		force, want              bool
	}{
		{"none of three", 3, 0, 0, false, true},
		{"one of three", 3, 1, 0, false, false},
		{"two of three", 3, 2, 0, false, false},
		{"two of three, forced", 3, 2, 0, true, true},
		{"others have the addresses", 3, 0, 2, false, true},
		{"one of five", 5, 1, 0, false, true},
		{"two of five", 5, 2, 0, false, false},
		{"alone", 1, 0, 0, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			writeJournal(t, wal.Dir(dir), 3, nil)
			members := &cluster.Members{Index: 1, List: []cluster.Member{{ID: 1, Name: "n1", Addr: "127.0.0.1:1", Voter: true}}}
			for i := 2; i <= tt.voters; i++ {
				one := cluster.Member{ID: uint64(i), Name: fmt.Sprint("n", i), Addr: "127.0.0.1:1", Voter: true}
				switch {
				case i-2 < tt.answers:
					one.Addr = listens(t, transport.Identity{Cluster: of, Node: one.ID, Name: one.Name})
				case i-2 < tt.strange:
					one.Addr = listens(t, transport.Identity{Cluster: of + 1, Node: one.ID, Name: one.Name})
				}
				members.List = append(members.List, one)
			}
			s, err := cluster.CreateState(wal.Dir(dir), cluster.Identity{Cluster: of, Node: 1, Name: "n1"}, cluster.Vote{}, members)
			if err != nil {
				t.Fatal(err)
			}
			s.Close()
			before := files(t, dir)
			a, err := RecoverAlone(t.Context(), dir, tt.force)
			if tt.want {
				if err != nil || strings.Contains(a.Meaning(dir), "WARNING") != (tt.answers > 0) {
					t.Errorf("%+v, %v", a, err)
				}
				return
			}
			if _, is := errors.AsType[*QuorumError](err); !is || !strings.Contains(err.Error(), "n2 at 127.0.0.1:") {
				t.Errorf("the error is %v", err)
			}
			after := files(t, dir)
			delete(after, "lock")
			if !maps.Equal(after, before) {
				t.Errorf("the directory holds %q", slices.Sorted(maps.Keys(after)))
			}
		})
	}
}

// listens has a node listen, and returns its address.
func listens(t *testing.T, as transport.Identity) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n, err := transport.New(transport.Options{
		Self: as, Advertise: l.Addr().String(), Listener: l, Now: time.Now,
		Log: slog.New(slog.DiscardHandler), Streams: map[transport.Kind]func(*transport.Stream){transport.Admin: func(s *transport.Stream) { s.Close() }},
	})
	if err != nil {
		t.Fatal(err)
	}
	n.Start()
	t.Cleanup(func() { n.Close() })
	return l.Addr().String()
}

func TestRecoverAloneRefuses(t *testing.T) {
	for _, c := range []struct {
		name, want string
		make       func(t *testing.T, dir string)
	}{
		{"no journal", "holds no journal", func(t *testing.T, dir string) { write(t, dir, cluster.StateName, "votes") }},
		{"not joined", "never joined", func(t *testing.T, dir string) { write(t, dir, PendingName, "1") }},
		{"alone", "starts on it as it is", func(t *testing.T, dir string) { writeJournal(t, wal.Dir(dir), 3, nil) }},
		{"damaged", "salvage", func(t *testing.T, dir string) {
			writeJournal(t, wal.Dir(dir), 30, nil)
			write(t, dir, cluster.StateName, "votes")
			b := []byte(files(t, dir)["journal.0000000001"])
			b[1000] ^= 1
			write(t, dir, "journal.0000000001", string(b))
		}},
		{"in use", "in use by a server", func(t *testing.T, dir string) {
			writeJournal(t, wal.Dir(dir), 3, nil)
			write(t, dir, cluster.StateName, "votes")
			lock, err := binlog.Lock(dir)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { lock.Unlock() })
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			c.make(t, dir)
			before := files(t, dir)
			if _, err := RecoverAlone(t.Context(), dir, true); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v", err)
			}
			after := files(t, dir)
			if before["lock"] == "" {
				delete(after, "lock")
				delete(before, "lock")
			}
			if !maps.Equal(after, before) {
				t.Errorf("the directory holds %q", slices.Sorted(maps.Keys(after)))
			}
		})
	}
	if _, err := RecoverAlone(t.Context(), filepath.Join(t.TempDir(), "gone"), true); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a directory the error is %v", err)
	}
}

// A power cut leaves either a member's directory, whole, or a server's.
func TestAloneEndsAnywhere(t *testing.T) {
	for at := 1; ; at++ {
		d := fakedisk.New(uint64(at))
		for _, name := range []string{"journal.0000000001", cluster.StateName, cluster.StateName + ".new", "exchange.note"} {
			if _, err := d.Create(name); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.Sync(); err != nil {
			t.Fatal(err)
		}
		d.CrashAt = d.Ops + at
		err := makeAlone(d)
		d.Cut()
		_, state := d.Entries[cluster.StateName]
		if len(d.Entries) > 1 && !state {
			t.Fatalf("operation %d: there is no state, and still %v", at, d)
		}
		if err == nil {
			if state {
				t.Fatal("the state is back")
			}
			break
		}
	}
}

func TestBackup(t *testing.T) {
	var b bytes.Buffer
	writeJournal(t, fakedisk.New(1), 400, &b)
	for _, exists := range []bool{false, true} {
		out := filepath.Join(t.TempDir(), "out")
		if exists {
			if err := os.MkdirAll(filepath.Join(out, "lost+found"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		heard := int64(0)
		r, err := Backup(context.Background(), bytes.NewReader(b.Bytes()), out, func(n, _ int64) { heard = n })
		if err != nil {
			t.Fatal(err)
		}
		if r.Batches < 400 || heard != r.Bytes {
			t.Errorf("%+v, heard of %d", r, heard)
		}
		os.Remove(filepath.Join(out, "lost+found"))
		for name := range files(t, out) {
			if !strings.HasPrefix(name, "journal.") && name != "lock" {
				t.Errorf("not removed: %s", name)
			}
		}
		if n := len(jobsOf(t, wal.Dir(out))); n != 400 {
			t.Errorf("%d jobs", n)
		}
		if _, err := Backup(context.Background(), bytes.NewReader(b.Bytes()), out, nil); err == nil || !strings.Contains(err.Error(), "is not empty") {
			t.Errorf("over the same directory: %v", err)
		}
	}
}

// A broken backup leaves nothing.
func TestBrokenBackup(t *testing.T) {
	var b bytes.Buffer
	writeJournal(t, fakedisk.New(1), 40, &b)
	binary.LittleEndian.PutUint32(b.Bytes()[b.Len()-20:], 1)
	out := filepath.Join(t.TempDir(), "out")
	if _, err := Backup(context.Background(), &b, out, nil); err == nil {
		t.Error("no error")
	}
	if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is there: %v", err)
	}
	if err := os.Mkdir(out, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Backup(context.Background(), strings.NewReader("HTTP/1.1 400"), out, nil); err == nil {
		t.Error("no error")
	}
	if left := files(t, out); len(left) > 0 {
		t.Errorf("there is still %q", slices.Sorted(maps.Keys(left)))
	}
}
