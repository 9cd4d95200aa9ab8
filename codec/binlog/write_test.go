package binlog

import (
	"bytes"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// each yields jobs, and then err unless it is nil.
func each(err error, jobs ...Job) iter.Seq2[Job, error] {
	return func(yield func(Job, error) bool) {
		for _, j := range jobs {
			if !yield(j, nil) {
				return
			}
		}
		if err != nil {
			yield(Job{}, err)
		}
	}
}

func job(id uint64, state State, body string) Job { return full(id, byte(state), body).want(state) }

func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

func TestFailedWriteLeavesNothing(t *testing.T) {
	broken := errors.New("broken")
	edit := func(f func(*Job)) Job {
		j := job(2, Delayed, "two")
		f(&j)
		return j
	}
	for what, jobs := range map[string]iter.Seq2[Job, error]{
		"broken":                each(broken, job(1, Ready, strings.Repeat("x", 2*windowSize))),
		"job id 0":              each(nil, job(1, Ready, "one"), job(0, Ready, "zero")),
		"job 2: no state":       each(nil, edit(func(j *Job) { j.State = stateReserved })),
		"job 2: no sta":         each(nil, edit(func(j *Job) { j.State = stateDeleted })),
		"delay out of range":    each(nil, edit(func(j *Job) { j.Delay = -1 })),
		"time to run out":       each(nil, edit(func(j *Job) { j.TTR = time.Duration(askedMax) + 1 })),
		"time out of range":     each(nil, edit(func(j *Job) { j.Created = -1 })),
		"job 2: time out of ra": each(nil, edit(func(j *Job) { j.Deadline = -1 })),
	} {
		dir := t.TempDir()
		w, err := WriteDir(dir, jobs)
		if err == nil || !strings.Contains(err.Error(), what) || w != nil {
			t.Errorf("%s: %v, %+v", what, err, w)
		}
		if got := names(t, dir); got != "" {
			t.Errorf("%s left %s", what, got)
		}
	}
	if _, err := WriteDir(filepath.Join(t.TempDir(), "none"), each(nil)); err == nil {
		t.Error("no directory, and no error")
	}
}

func TestLogIsNotOverwritten(t *testing.T) {
	for _, name := range []string{"binlog.1", "binlog.77", "binlog.1.tmp"} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, name), []byte("mine"))
		if _, err := WriteDir(dir, each(nil, job(1, Ready, "one"))); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != "mine" || names(t, dir) != name {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	// A server that started meanwhile.
	dir := t.TempDir()
	_, err := WriteDir(dir, func(yield func(Job, error) bool) {
		write(t, filepath.Join(dir, "binlog.1"), []byte("mine"))
		yield(job(1, Ready, "one"), nil)
	})
	if b, _ := os.ReadFile(filepath.Join(dir, "binlog.1")); err == nil || string(b) != "mine" || names(t, dir) != "binlog.1" {
		t.Errorf("%v, %q, %s", err, b, names(t, dir))
	}
}

func TestWrittenIsRead(t *testing.T) {
	jobs := []Job{job(9, Ready, "nine"), job(1<<64-1, Delayed, ""), job(3, Buried, strings.Repeat("\r\n\x00", windowSize)), job(4, Ready, "four")}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "lock"), nil)
	// A deadline that a ready job still has is not one.
	given := append([]Job(nil), jobs...)
	given[0].Deadline = -5
	w, err := WriteDir(dir, each(nil, given...))
	if err != nil {
		t.Fatal(err)
	}
	c, got := mustJobs(t, dir)
	checkJobs(t, got, jobs...)
	info, err := os.Stat(filepath.Join(dir, "binlog.1"))
	if err != nil || info.Mode() != 0o400 || info.Size() != w.Bytes || w.Jobs != 4 || c.Records != 4 || names(t, dir) != "binlog.1 lock" {
		t.Errorf("%v %v, %+v, %+v, %s", info, err, w, c, names(t, dir))
	}

	// What was read can be written again, the same to the byte.
	again := t.TempDir()
	var buf []byte
	if _, err := WriteDir(again, c.Jobs(func(n int) []byte { buf = append(buf[:0], make([]byte, n)...); return buf })); err != nil {
		t.Fatal(err)
	}
	a, errA := os.ReadFile(filepath.Join(dir, "binlog.1"))
	b, errB := os.ReadFile(filepath.Join(again, "binlog.1"))
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Errorf("the copy differs: %v, %v", errA, errB)
	}
}

// The bytes equal a hand-made file.
func TestWrittenBytes(t *testing.T) {
	dir := t.TempDir()
	if _, err := WriteDir(dir, each(nil, job(1, Ready, "one"), job(2, Delayed, ""), job(3, Buried, "three"))); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "binlog.1"))
	one, three := full(1, 1, "one"), full(3, 3, "three")
	one.job.Deadline, three.job.Deadline = 0, 0
	if want := log(7, one, full(2, 4, ""), three); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v\n got %q\nwant %q", err, got, want)
	}
}

func TestWhatBeanstalkdCannotReadIsToldOf(t *testing.T) {
	named := func(id uint64, tube string) Job {
		j := job(id, Ready, "x")
		j.Tube = tube
		return j
	}
	dir := t.TempDir()
	w, err := WriteDir(dir, each(nil,
		named(1, strings.Repeat("x", 201)), named(2, strings.Repeat("x", 200)), named(3, "a b"), named(4, ""),
		job(5, Ready, strings.Repeat("x", 65533)), job(6, Ready, strings.Repeat("x", 65534)), job(7, Ready, strings.Repeat("x", 70000))))
	if err != nil {
		t.Fatal(err)
	}
	if w.Jobs != 4 || w.MaxJobSize != 70002 {
		t.Errorf("%+v", w)
	}
	want := map[uint64]bool{1: true, 3: true, 4: true, 6: false, 7: false} // omitted?
	for _, warning := range w.Warnings {
		if omitted, ok := want[warning.ID]; !ok || omitted != warning.Omitted || strings.Contains(warning.String(), "left out") != omitted {
			t.Error(warning)
		}
		delete(want, warning.ID)
	}
	if len(want) > 0 {
		t.Errorf("no word of %v: %v", want, w.Warnings)
	}
	if _, jobs := mustJobs(t, dir); len(jobs) != 4 {
		t.Errorf("%d jobs", len(jobs))
	}
}
