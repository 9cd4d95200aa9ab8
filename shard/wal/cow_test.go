package wal_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	. "polystalk/shard/wal"
	"polystalk/shard/wal/fakedisk"
)

// A cowDisk is on a file system that writes what is overwritten elsewhere.
type cowDisk struct {
	Disk
	name string
}

type cowFile struct {
	File
	name string
}

func (d cowDisk) Open(name string) (File, error) {
	f, err := d.Disk.Open(name)
	return cowFile{f, d.name}, err
}

func (f cowFile) CopyOnWrite() string { return f.name }

// TestCopyOnWriteIsToldOf: where filling a segment reserves nothing the start says
// so, a first one and every other, in one line; and elsewhere it says nothing.
func TestCopyOnWriteIsToldOf(t *testing.T) {
	for _, name := range []string{"zfs", ""} {
		w := newWorld(1, fakedisk.New(1))
		w.opts.Disk = cowDisk{w.disk, name}
		for range 2 {
			var log bytes.Buffer
			w.opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
			must(t, second(w.open(true)))
			must(t, w.j.Close())
			if told := strings.Count(log.String(), "file system"); (told > 0) != (name != "") || told > 0 && strings.Count(log.String(), "\n") != 1 {
				t.Errorf("on %q it says %q", name, log.String())
			}
		}
		w.closeCores()
	}
	w := newWorld(1, nil)
	w.fake, w.opts.Disk = nil, Dir(t.TempDir())
	must(t, second(w.open(true)))
	f, err := w.opts.Disk.Open(SegmentName(1))
	must(t, err)
	defer f.Close()
	if name := f.(interface{ CopyOnWrite() string }).CopyOnWrite(); name != "" {
		t.Logf("the directory for tests is on %s, which cannot be told to overwrite in place", name)
	}
	must(t, w.j.Close())
	w.closeCores()
}
