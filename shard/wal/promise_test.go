package wal_test

import (
	"compress/gzip"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"polystalk/shard/commit"
	"polystalk/shard/core"
	"polystalk/shard/record"
	. "polystalk/shard/wal"
)

var rewrite = flag.Bool("rewrite", false, "write the list of jobs of each old journal that has none")

// unpack writes the files of a folder, which are compressed, to a new one.
func unpack(t *testing.T, from string) string {
	t.Helper()
	dir := t.TempDir()
	files, err := filepath.Glob(from + "/*.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", from, len(files), err)
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(z)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, strings.TrimSuffix(filepath.Base(name), ".gz")), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// contents returns a line for each job and pause of a journal.
func contents(t *testing.T, dir string) string {
	t.Helper()
	machine := core.New(nil)
	defer machine.Close()
	replay := machine.Replay()
	var pauses strings.Builder
	_, err := commit.New(commit.Options{Options: Options{Disk: Dir(dir), Manual: true}, Shards: 1}).Recover(Replayer{
		Workers: 1, Worker: func(uint16) int { return 0 },
		Apply: func(_ int, r *record.Record) error {
			if r.Kind == record.KindPause {
				fmt.Fprintf(&pauses, "tube %s: paused until %d, for %d\n", r.Tube, r.Until, r.Length)
			}
			return replay.Apply(r)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	var b record.Buffer
	machine.RecordTo(&b)
	replay.Done(1)
	var ids []core.JobID
	machine.EachID(func(id core.JobID) { ids = append(ids, id) })
	slices.Sort(ids)
	all := newFacts()
	for _, id := range ids {
		machine.CopyJob(id, math.MaxUint64)
	}
	for _, rec := range split(&b, b.Data, b.Refs) {
		all.apply(rec)
	}
	var text strings.Builder
	for _, id := range ids {
		j := all.jobs[uint64(id)].Job
		body := fmt.Sprintf("%q", j.Body)
		if len(j.Body) > 100 {
			body = fmt.Sprintf("%d bytes, %.16q", len(j.Body), j.Body)
		}
		fmt.Fprintf(&text, "job %d: %s, state %d, created %d, due %d, priority %d, delay %d, time to run %d, %+v, submitted %+v, %s\n",
			j.ID, j.Tube, j.State, j.Created, j.Due, j.Pri, j.Delay, j.TTR, j.Counts, j.Submitted, body)
	}
	return text.String() + pauses.String()
}

// TestOldJournalsAreRead: each folder in testdata has a journal that a released version wrote, and
// the jobs that are in it. Folders are added, and never changed.
func TestOldJournalsAreRead(t *testing.T) {
	folders, err := filepath.Glob("testdata/*")
	if err != nil || len(folders) < 2 {
		t.Fatalf("%q, %v", folders, err)
	}
	for _, folder := range folders {
		got, file := contents(t, unpack(t, folder)), folder+"/jobs.txt"
		if _, err := os.Stat(file); *rewrite && os.IsNotExist(err) {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(file); err != nil || got != string(want) {
			t.Errorf("%s: the journal has\n%s\nwant\n%s(%v)", folder, got, want, err)
		}
	}
}
