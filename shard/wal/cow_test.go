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

// TestCopyOnWriteIsToldOf: each start on a file system where filling a segment reserves nothing
// says so in one line.
func TestCopyOnWriteIsToldOf(t *testing.T) {
	for name, want := range map[string]int{"zfs": 1, "": 0} {
		w := newWorld(1, fakedisk.New(1))
		w.opts.Disk = cowDisk{w.disk, name}
		for range 2 {
			var log bytes.Buffer
			w.opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
			must(t, second(w.open(true)))
			must(t, w.j.Close())
			if strings.Count(log.String(), "\n") != want || strings.Count(log.String(), "file system") < want {
				t.Errorf("on %q it says %q", name, log.String())
			}
		}
		w.closeCores()
	}
}
