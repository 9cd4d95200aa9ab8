package binlog

import (
	"bufio"
	"bytes"
	"errors"
	"path/filepath"
	"testing"
)

// The memory of a body is reserved for what is in the file, never for what a length says.
func FuzzReadDir(f *testing.F) {
	for _, version := range []uint32{7, 5} {
		b, _ := sample(version)
		f.Add(b, true)
		f.Add(append(b[:len(b)-3:len(b)-3], make([]byte, 90)...), false)
		for _, records := range badRecords() {
			f.Add(log(version, append([]hand{full(1, 1, "one")}, records...)...), true)
		}
	}
	f.Add([]byte{1}, true)
	dir, out := f.TempDir(), f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte, salvage bool) {
		path := filepath.Join(dir, "binlog.1")
		write(t, path, b)
		c, err := ReadDir(dir, Options{Salvage: salvage})
		if err != nil {
			d, ok := errors.AsType[damage](err)
			if salvage || !ok || d.Path != path || d.Offset < 0 || d.Offset >= int64(len(b)) {
				t.Fatalf("%v", err)
			}
			return
		}
		if c.BodyBytes > int64(len(b)) || int64(c.Len()) > c.Records {
			t.Fatalf("%+v of %d bytes", c, len(b))
		}
		var seen []Job
		for j, err := range c.Jobs(func(n int) []byte {
			if n > len(b) {
				t.Fatalf("a body of %d bytes in a file of %d", n, len(b))
			}
			return make([]byte, n)
		}) {
			if err != nil || j.ID == 0 || j.ID > c.HighestID {
				t.Fatalf("%v, %+v", err, j)
			}
			seen = append(seen, j)
		}
		for i, d := range c.Damages {
			if d.Offset+d.Skipped > int64(len(b)) || i > 0 && d.Offset <= c.Damages[i-1].Offset || !salvage && !d.Torn {
				t.Fatalf("damages %+v of %d bytes", c.Damages, len(b))
			}
		}
		// Whatever is read can be written, and is read again.
		var file bytes.Buffer
		w := writer{buf: bufio.NewWriter(&file)}
		if err := w.all(each(nil, seen...)); err != nil || len(w.Warnings) > 0 {
			t.Fatal(err, w.Warnings)
		}
		write(t, filepath.Join(out, "binlog.1"), file.Bytes())
		_, again := mustJobs(t, out)
		checkJobs(t, again, seen...)
	})
}
