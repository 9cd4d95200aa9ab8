package binlog

import (
	"strings"
	"testing"
	"time"
)

// The rules of replay, in both versions.
func TestReplay(t *testing.T) {
	one, two, three := full(1, 1, "one"), full(2, 1, "two"), full(3, 1, "three")
	changed := short(one, 4)
	changed.job.Pri, changed.job.Delay, changed.job.Deadline, changed.job.Releases = 0, time.Hour, 1_800_000_000_000_000_000, 9
	moved := one
	moved.job.Kicks, moved.state = 77, 3
	for _, tt := range []struct {
		name    string
		files   [][]hand
		want    []Job
		highest uint64
		records int64
	}{
		{"nothing", [][]hand{{}, {}}, nil, 0, 0},
		{"no file", nil, nil, 0, 0},
		{"states", [][]hand{{one, full(2, 3, "two"), full(3, 4, "three")}},
			[]Job{one.want(Ready), two.want(Buried), three.want(Delayed)}, 3, 3},
		{"reserved is ready", [][]hand{{full(1, 2, "one"), two, short(two, 2)}}, []Job{one.want(Ready), two.want(Ready)}, 2, 3},
		{"the last record counts", [][]hand{{one, two, changed}}, []Job{changed.want(Delayed), two.want(Ready)}, 2, 3},
		{"also in another file", [][]hand{{one, two}, {short(one, 3)}, {changed}}, []Job{changed.want(Delayed), two.want(Ready)}, 2, 4},
		{"deleted", [][]hand{{one, two, three, short(two, 0)}, {short(three, 0)}}, []Job{one.want(Ready)}, 3, 5},
		{"all deleted, the highest id stays", [][]hand{{three, short(three, 0), two, short(two, 0)}}, nil, 3, 4},
		{"short records of unknown jobs", [][]hand{{short(three, 0), short(full(900, 1, "x"), 3), one}}, []Job{one.want(Ready)}, 900, 3},
		{"order of first full records", [][]hand{{one, two, three}, {short(three, 3), moved}, {short(two, 3)}},
			[]Job{moved.want(Buried), two.want(Buried), three.want(Buried)}, 3, 6},
		{"an id used again is a new job", [][]hand{{one, two, short(one, 0)}, {full(1, 3, "another")}},
			[]Job{two.want(Ready), full(1, 3, "another").want(Buried)}, 2, 4},
	} {
		for _, version := range []uint32{7, 5} {
			for _, zeros := range []int{0, 1, 3, 4, 83, 5000} {
				var files [][]byte
				for _, records := range tt.files {
					files = append(files, append(log(version, records...), make([]byte, zeros)...))
				}
				c, jobs := mustJobs(t, dirOf(t, files...))
				checkJobs(t, jobs, tt.want...)
				size := int64(0)
				for _, j := range jobs {
					size += int64(len(j.Body))
				}
				if c.HighestID != tt.highest || c.Records != tt.records || c.Files != len(tt.files) || c.Len() != len(jobs) || c.BodyBytes != size {
					t.Errorf("%s, version %d: %+v", tt.name, version, c)
				}
			}
		}
	}
}

// Versions may be mixed: a server of 1.5 goes on after one of 1.4.
func TestVersionsMix(t *testing.T) {
	one, two := full(1, 1, "one"), full(2, 1, "two")
	_, jobs := mustJobs(t, dirOf(t, log(5, one, two), log(7, short(one, 3))))
	checkJobs(t, jobs, one.want(Buried), two.want(Ready))
}

// Limits as they are, not as they are usual.
func TestExtremesAreRead(t *testing.T) {
	h := full(1<<64-1, 4, strings.Repeat("\x00\r\n", 3*windowSize))
	h.tube = strings.Repeat("+", 200)
	h.job = Job{ID: h.job.ID, Tube: h.tube, Pri: 1<<32 - 1, Delay: time.Duration(askedMax), TTR: time.Duration(askedMax), Created: 0, Deadline: 1<<62 - 1<<62%1000,
		Reserves: 1<<32 - 1, Timeouts: 1<<32 - 1, Releases: 1<<32 - 1, Buries: 1<<32 - 1, Kicks: 1<<32 - 1, Body: h.job.Body}
	stale := full(2, 1, "")
	stale.job.Deadline = -1000 // undefined unless delayed
	for _, version := range []uint32{7, 5} {
		c, jobs := mustJobs(t, dirOf(t, log(version, h, stale)))
		checkJobs(t, jobs, h.want(Delayed), stale.want(Ready))
		if c.HighestID != 1<<64-1 {
			t.Error(c.HighestID)
		}
	}
}

// TestCallerOwnsBodies: bodies are read into the caller's memory, when the caller asks for them.
func TestCallerOwnsBodies(t *testing.T) {
	sizes := []int{0, 1, 1000, windowSize/4 + 1, windowSize, 2*windowSize + 1, 5}
	var records []hand
	var want []Job
	for i, n := range sizes {
		h := full(uint64(i+1), 1, strings.Repeat(string(rune('a'+i)), n))
		records, want = append(records, h), append(want, h.want(Ready))
	}
	c, err := ReadDir(dirOf(t, log(7, records[:3]...), log(7, records[3:]...), log(7, records[1])), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		space := make([]byte, 0, 4*windowSize)
		var got []Job
		for j, err := range c.Jobs(func(n int) []byte {
			space = space[:len(space)+n]
			return space[len(space)-n:]
		}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, j)
		}
		checkJobs(t, got, want...)
		total := 0
		for _, n := range sizes {
			total += n
		}
		if len(space) != total {
			t.Fatalf("asked for %d bytes, want %d", len(space), total)
		}
	}
	for range c.Jobs(nil) {
		break // and nothing more happens
	}
}

// Deleted jobs and their tubes leave nothing behind.
func TestMemoryIsForLiveJobs(t *testing.T) {
	r := replay{live: map[uint64]*entry{}, tubes: map[string]string{}}
	for i := range uint64(10_000) {
		name := []byte("reply." + strings.Repeat("x", int(i%50)) + time.Duration(i).String())
		rec := record{jobrec: jobrec{job: Job{ID: i + 1, State: Ready}, state: 1, bodySize: 2}, tube: name}
		if bad := r.apply(&scanner{}, &rec, 0); bad != "" {
			t.Fatal(bad)
		}
		rec.state, rec.tube = 0, nil
		if bad := r.apply(&scanner{}, &rec, 0); bad != "" {
			t.Fatal(bad)
		}
		if len(r.live) > 0 || len(r.tubes) > 1002 {
			t.Fatalf("%d jobs, %d tubes", len(r.live), len(r.tubes))
		}
	}
}
