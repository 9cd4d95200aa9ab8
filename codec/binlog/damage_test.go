package binlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// with changes a copy of b.
func with(b []byte, at int, bytes ...byte) []byte {
	b = append([]byte(nil), b...)
	copy(b[at:], bytes)
	return b
}

// badRecords are records that beanstalkd never writes, and what is said.
func badRecords() map[string][]hand {
	edit := func(f func(*hand)) []hand {
		h := full(2, 1, "two")
		f(&h)
		return []hand{h}
	}
	return map[string][]hand{
		"length of the tube name":  edit(func(h *hand) { h.tube = strings.Repeat("x", 201) }),
		"illegal tube name":        edit(func(h *hand) { h.tube = "a b" }),
		"job id 0":                 edit(func(h *hand) { h.job.ID = 0 }),
		"unknown job state":        edit(func(h *hand) { h.state = 5 }),
		"full record of a deleted": edit(func(h *hand) { h.state = 0 }),
		"body size out of range":   edit(func(h *hand) { h.bodySize = 1 }),
		"body size out":            edit(func(h *hand) { h.bodySize = bodySizeMax + 1 }),
		"body size out of":         edit(func(h *hand) { h.bodySize = 1 << 31 }),
		"body runs past":           edit(func(h *hand) { h.bodySize = bodySizeMax }),
		"CR LF":                    edit(func(h *hand) { h.body = []byte("two\n\r") }),
		"delay out of range":       edit(func(h *hand) { h.job.Delay = -1 }),
		"time to run out":          edit(func(h *hand) { h.job.TTR = time.Duration(askedMax) + 1000 }),
		"time out of range":        edit(func(h *hand) { h.job.Created = -1 }),
		"time out of":              edit(func(h *hand) { h.state, h.job.Deadline = 4, -1 }),
		"another size":             {short(full(1, 1, "longer"), 1)},
		"another si":               {full(1, 1, "longer")},
		"another tube":             edit(func(h *hand) { h.job = full(1, 1, "one").job; h.tube = "other" }),
	}
}

func TestDamageNamesFileAndOffset(t *testing.T) {
	for _, version := range []uint32{7, 5} {
		for reason, records := range badRecords() {
			good := log(version, full(1, 1, "one"))
			after := full(3, 1, "three")
			second := after.append(records[0].append(log(version, full(1, 1, "one")), version), version)
			dir := dirOf(t, log(version), second, log(version, full(4, 3, "four")))
			_, err := ReadDir(dir, Options{})
			d, ok := errors.AsType[damage](err)
			if !ok || d.Path != filepath.Join(dir, "binlog.2") || d.Offset != int64(len(good)) || d.Torn || !strings.Contains(d.Reason, reason) {
				t.Errorf("version %d, %s: %v", version, reason, err)
			}

			c, jobs, err := jobsOf(dir, Options{Salvage: true})
			if err != nil || len(c.Damages) != 1 {
				t.Errorf("version %d, %s, salvaged: %v, %+v", version, reason, err, c)
				continue
			}
			skipped := int64(len(second) - len(good) - len(after.append(nil, version)))
			if d.Skipped = skipped; c.Damages[0] != d {
				t.Errorf("version %d, %s: %+v, want %+v", version, reason, c.Damages[0], d)
			}
			checkJobs(t, jobs, full(1, 1, "one").want(Ready), after.want(Ready), full(4, 3, "four").want(Buried))
		}
	}
}

func TestHeaderIsKnown(t *testing.T) {
	body := log(7, full(1, 1, "one"))[4:]
	for reason, header := range map[string]string{
		"big-endian":        "\x00\x00\x00\x07",
		"neither version 7": "\x06\x00\x00\x00",
		"neither":           "\x00\x00\x00\x00",
	} {
		dir := dirOf(t, log(7), append([]byte(header), body...))
		_, err := ReadDir(dir, Options{})
		if d, ok := errors.AsType[damage](err); !ok || d.Path != filepath.Join(dir, "binlog.2") || d.Offset != 0 || !strings.Contains(d.Reason, reason) {
			t.Errorf("%q: %v", header, err)
		}
		c, jobs, err := jobsOf(dir, Options{Salvage: true})
		if err != nil || len(c.Damages) != 1 {
			t.Fatalf("%q, salvaged: %v %v", header, err, c)
		}
		checkJobs(t, jobs, full(1, 1, "one").want(Ready))
	}
	if _, err := ReadDir(dirOf(t, []byte{7, 0, 0}), Options{}); err == nil {
		t.Error("a header cut short is no error")
	}
}

// A 32-bit server's file must not be taken for a damaged one.
func TestFirstRecordHintsAtOtherMachines(t *testing.T) {
	b := log(7)
	b = binary.LittleEndian.AppendUint32(b, 3)
	b = append(b, "abc"...)
	rec := make([]byte, 72)
	rec[0], rec[20+4], rec[28], rec[68] = 1, 1, 5, 1
	b = append(append(b, rec...), "abc\r\n"...)
	b = append(b, b[4:]...)
	if _, err := ReadDir(dirOf(t, b), Options{}); err == nil || !strings.Contains(err.Error(), "32-bit") {
		t.Error(err)
	}
}

// The first record of a file may be whole and still not be meant, in whatever version it is read.
func TestSalvageGetsPastTheFirstRecord(t *testing.T) {
	for _, version := range []uint32{7, 5} {
		for _, header := range []uint32{7, 5, 9} {
			second := log(version, full(1, 1, "longer"), full(2, 1, "two"))
			binary.LittleEndian.PutUint32(second, header)
			c, jobs, err := jobsOf(dirOf(t, log(version, full(1, 1, "one")), second), Options{Salvage: true})
			if err != nil || len(c.Damages) == 0 {
				t.Fatalf("%v, %+v", err, c)
			}
			checkJobs(t, jobs, full(1, 1, "one").want(Ready), full(2, 1, "two").want(Ready))
		}
	}
}

func TestZerosBeforeDataAreDamage(t *testing.T) {
	one := log(7, full(1, 1, "one"))
	b := append(bytes.Clone(one), make([]byte, 1000)...)
	b = full(2, 1, "two").append(b, 7)
	dir := dirOf(t, b)
	_, err := ReadDir(dir, Options{})
	if d, ok := errors.AsType[damage](err); !ok || d.Offset != int64(len(one)) {
		t.Error(err)
	}
	c, jobs, err := jobsOf(dir, Options{Salvage: true})
	if err != nil || len(c.Damages) != 1 || c.Damages[0].Skipped != 1000 {
		t.Errorf("%v, %+v", err, c)
	}
	checkJobs(t, jobs, full(1, 1, "one").want(Ready), full(2, 1, "two").want(Ready))
}

// sample is a file with each kind of record, and the offsets at which it may
// end, with the jobs that are alive there.
func sample(version uint32) (b []byte, ends map[int][]Job) {
	one, two, three := full(1, 1, "one"), full(2, 4, "second\r\nline"), full(3, 3, "")
	b = log(version)
	ends = map[int][]Job{len(b): nil}
	step := func(h hand, alive ...Job) {
		b = h.append(b, version)
		ends[len(b)] = alive
	}
	step(one, one.want(Ready))
	step(two, one.want(Ready), two.want(Delayed))
	step(short(one, 3), one.want(Buried), two.want(Delayed))
	step(three, one.want(Buried), two.want(Delayed), three.want(Buried))
	step(short(two, 0), one.want(Buried), three.want(Buried))
	return b, ends
}

// TestRecordHalfWrittenIsNoError: a server killed within a put leaves the beginning of a record,
// or a file without a header, with zeros behind it. The log is good.
func TestRecordHalfWrittenIsNoError(t *testing.T) {
	for _, size := range []int{0, 3, 8192} {
		c, jobs, err := jobsOf(dirOf(t, log(7, full(1, 1, "one")), make([]byte, size)), Options{})
		if err != nil || len(c.Damages) != 1 || !c.Damages[0].Torn {
			t.Fatalf("%d zeros: %v, %+v", size, err, c)
		}
		checkJobs(t, jobs, full(1, 1, "one").want(Ready))
	}
	for _, version := range []uint32{7, 5} {
		one, two := full(1, 1, "one"), full(2, 1, "a body")
		begin := log(version, one)
		whole := two.append(bytes.Clone(begin), version)
		lengthSize, recSize := 4, 80
		if version == 5 {
			lengthSize, recSize = 8, 77
		}
		at := len(begin)
		head := at + lengthSize + len(two.tube)
		for what, written := range map[string]int{
			"nothing": at, "length": at + lengthSize, "name": head, "Jobrec": head + recSize, "a part of the body": head + recSize + 3,
		} {
			for _, size := range []int{len(whole), len(whole) + 1, len(whole) + 5000} {
				b := make([]byte, size)
				copy(b, whole[:written])
				c, jobs, err := jobsOf(dirOf(t, b, log(version, full(3, 1, "three"))), Options{})
				if err != nil {
					t.Errorf("%s: %v", what, err)
					continue
				}
				if torn := written > at; torn != (len(c.Damages) == 1) || torn && (!c.Damages[0].Torn || c.Damages[0].Offset != int64(at)) {
					t.Errorf("%s: %+v", what, c.Damages)
				}
				checkJobs(t, jobs, one.want(Ready), full(3, 1, "three").want(Ready))
			}
		}
	}
}

// Jobs finds out that the log is not the one that ReadDir saw.
func TestLogThatChangesIsAnError(t *testing.T) {
	b := log(7, full(1, 1, "one"), full(2, 1, strings.Repeat("x", windowSize)))
	for what, change := range map[string]func(path string) error{
		"vanished":  os.Remove,
		"cut":       func(path string) error { return os.Truncate(path, int64(len(b))-1) },
		"rewritten": func(path string) error { return os.WriteFile(path, with(b, 12, 9), 0o600) },
		"replaced": func(path string) error {
			return errors.Join(os.Rename(path, path+".old"), os.Symlink("binlog.1.old", path))
		},
	} {
		dir := dirOf(t, b)
		c, err := ReadDir(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "binlog.1")
		if err := change(path); err != nil {
			t.Fatal(err)
		}
		var last error
		for _, err := range c.Jobs(nil) {
			last = err
		}
		if last == nil || !strings.Contains(last.Error(), path) {
			t.Errorf("%s: %v", what, last)
		}
	}
}
