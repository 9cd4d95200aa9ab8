package directory

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"polystalk/codec/binlog"
	"polystalk/router/cluster/snapshot"
	"polystalk/shard/journal"
	"polystalk/shard/journal/fakedisk"
	"polystalk/shard/record"
)

// aJournal writes one with so many jobs to a directory, and sends it to a writer that is not nil.
func aJournal(t *testing.T, d journal.Disk, jobs int, to io.Writer) {
	t.Helper()
	j := journal.New(journal.Options{Disk: d, SegmentSize: journal.SegmentMin, Shards: 1, Manual: true, Now: time.Now})
	if err := j.Start(); err != nil {
		t.Fatal(err)
	}
	for i := range jobs {
		log := j.Log(0)
		log.Begin()
		log.Buffer.Put(&record.Job{ID: uint64(i + 1), State: record.Ready, Tube: []byte("default"), TTR: 60, Body: []byte("body")}, 0, nil)
		log.End()
		if err := j.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	if to != nil {
		p := j.Pin()
		defer p.Release()
		if _, err := snapshot.Send(context.Background(), to, p, snapshot.SendOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// files are those of a directory, with their contents.
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

func TestRecoverAlone(t *testing.T) {
	dir := t.TempDir()
	aJournal(t, journal.Dir(dir), 7, nil)
	want := files(t, dir)
	for _, name := range []string{stateName, stateName + ".new", "exchange.note"} {
		write(t, dir, name, "votes")
	}
	a, err := RecoverAlone(dir)
	if err != nil {
		t.Fatal(err)
	}
	if a.Batches < 7 || a.LastIndex != uint64(a.Batches) || a.LastTerm != 1 {
		t.Errorf("%+v", a)
	}
	for _, word := range []string{dir, "polystalkd -b", "never", "--cluster-new", "of term 1:"} {
		if !strings.Contains(a.Meaning(dir), word) {
			t.Errorf("nothing is said of %s: %s", word, a.Meaning(dir))
		}
	}
	got := files(t, dir)
	delete(got, "lock")
	if !maps.Equal(got, want) {
		t.Errorf("the directory holds %q", slices.Sorted(maps.Keys(got)))
	}
	if _, err := RecoverAlone(dir); err == nil || !strings.Contains(err.Error(), "is not the directory of a cluster's server") {
		t.Errorf("once more: %v", err)
	}
}

// TestRecoverAloneFinishesAnExchange: what had begun when the node ended is not given up.
func TestRecoverAloneFinishesAnExchange(t *testing.T) {
	dir := t.TempDir()
	aJournal(t, journal.Dir(dir), 9, nil)
	for name := range files(t, dir) {
		if err := os.Rename(filepath.Join(dir, name), filepath.Join(dir, strings.Replace(name, "journal", "incoming", 1))); err != nil {
			t.Fatal(err)
		}
	}
	write(t, dir, "exchange.cleared", "")
	write(t, dir, stateName, "votes")
	if a, err := RecoverAlone(dir); err != nil || a.Batches < 9 {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestRecoverAloneRefuses(t *testing.T) {
	for _, c := range []struct {
		name, want string
		make       func(t *testing.T, dir string)
	}{
		{"no journal", "holds no journal", func(t *testing.T, dir string) { write(t, dir, stateName, "votes") }},
		{"not joined", "never joined", func(t *testing.T, dir string) { write(t, dir, joiningName, "1") }},
		{"alone", "starts on it as it is", func(t *testing.T, dir string) { aJournal(t, journal.Dir(dir), 3, nil) }},
		{"damaged", "salvage", func(t *testing.T, dir string) {
			aJournal(t, journal.Dir(dir), 30, nil)
			write(t, dir, stateName, "votes")
			b := []byte(files(t, dir)["journal.0000000001"])
			b[1000] ^= 1
			write(t, dir, "journal.0000000001", string(b))
		}},
		{"in use", "in use by a server", func(t *testing.T, dir string) {
			aJournal(t, journal.Dir(dir), 3, nil)
			write(t, dir, stateName, "votes")
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
			if _, err := RecoverAlone(dir); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("it says %v", err)
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
	if _, err := RecoverAlone(filepath.Join(t.TempDir(), "gone")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of no directory it says %v", err)
	}
}

// TestAloneEndsAnywhere: a power cut leaves either a node's directory, whole, or a server's.
func TestAloneEndsAnywhere(t *testing.T) {
	for at := 1; ; at++ {
		d := fakedisk.New(uint64(at))
		for _, name := range []string{"journal.0000000001", stateName, stateName + ".new", "exchange.note"} {
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
		_, state := d.Entries[stateName]
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
	aJournal(t, fakedisk.New(1), 400, &b)
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
				t.Errorf("there is still %s", name)
			}
		}
		j := journal.New(journal.Options{Disk: journal.Dir(out), SegmentSize: journal.SegmentMin, Shards: 1, Manual: true, Now: time.Now})
		puts := 0
		_, err = j.Recover(journal.Replayer{Workers: 1, Worker: func(uint16) int { return 0 }, Apply: func(_ int, r *record.Record) error {
			if r.Kind == record.Put {
				puts++
			}
			return nil
		}})
		if err != nil || puts != 400 {
			t.Errorf("%d jobs, %v", puts, err)
		}
		if _, err := Backup(context.Background(), bytes.NewReader(b.Bytes()), out, nil); err == nil || !strings.Contains(err.Error(), "is not empty") {
			t.Errorf("over the same directory: %v", err)
		}
	}
}

// TestBrokenBackup leaves nothing.
func TestBrokenBackup(t *testing.T) {
	var b bytes.Buffer
	aJournal(t, fakedisk.New(1), 40, &b)
	binary.LittleEndian.PutUint32(b.Bytes()[b.Len()-20:], 1)
	out := filepath.Join(t.TempDir(), "out")
	if _, err := Backup(context.Background(), &b, out, nil); err == nil {
		t.Error("nobody notices")
	}
	if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is there: %v", err)
	}
	if err := os.Mkdir(out, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Backup(context.Background(), strings.NewReader("HTTP/1.1 400"), out, nil); err == nil {
		t.Error("nobody notices")
	}
	if left := files(t, out); len(left) > 0 {
		t.Errorf("there is still %q", slices.Sorted(maps.Keys(left)))
	}
}
