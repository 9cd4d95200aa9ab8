package http

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3filter"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
	"polystalk/shard/wal"
)

var ndjson = map[string]string{"Content-Type": wire.LinesType}

func init() { openapi3filter.RegisterBodyDecoder(wire.LinesType, openapi3filter.FileBodyDecoder) }

// putLines puts lines, and returns the answer, with the slugs of the problems by line.
func (w *world) putLines(lines ...string) (v wire.PutLines, slugs string) {
	w.t.Helper()
	v = as[wire.PutLines](w.t, w.do("POST", "/api/v1/jobs", ask{header: ndjson, body: strings.Join(lines, "\n")}).wants(w.t, 200, ""))
	var all []string
	for _, l := range v.Lines {
		slug := ""
		if l.Problem != nil {
			slug = strings.TrimPrefix(l.Problem.Type, wire.ProblemPath)
		}
		expect(w.t, (slug == "") == (l.ID != 0), "%+v", l)
		all = append(all, slug)
	}
	return v, strings.Join(all, " ")
}

func TestRequestsForManyJobsAreRefusedAsAWhole(t *testing.T) {
	w := newWorld(t, setup{anonymous: access.Read})
	const path, line = "/api/v1/jobs", `{"tube":"a","body":"x"}`
	worker := ask{token: operateToken, header: ndjson}
	with := func(body string) ask { a := worker; a.body = body; return a }
	w.do("POST", path, ask{header: ndjson, body: line}).wants(t, 403, "read-only")
	w.do("POST", path, ask{token: operateToken, json: true, body: line}).wants(t, 415, "not-json")
	w.do("POST", path, with("")).wants(t, 400, "bad-request")
	w.do("POST", path, with("\n")).wants(t, 400, "bad-request")
	w.do("POST", path+"?tube=a", with(line)).wants(t, 400, "bad-request")
	w.do("POST", path, with(strings.Repeat("\n", 1001))).wants(t, 413, "too-large").has(t, "it has 1001 lines, and the limit is 1000")
	w.do("POST", path, with(strings.Repeat("x", jsonMax+1))).wants(t, 413, "too-large")
	w.srv.Drain()
	w.do("POST", path, with(line)).wants(t, 503, "draining")
	w.do("GET", "/api/v1/tubes/a", ask{token: readToken}).wants(t, 404, "not-found")
}

// TestEachLineHasItsResult, and a line that is refused leaves the others.
func TestEachLineHasItsResult(t *testing.T) {
	dir, crashed := t.TempDir(), t.TempDir()
	w := newWorld(t, setup{anonymous: access.Operate, dir: dir, maxJob: 200_000})
	large := strings.Repeat("y", 150_000)
	lines := []string{
		`{"tube":"a","body":"one"}`, "", `{"tube":"a","body":"` + "\xff" + `"}`, `{"tube":"a","body":"\u0000"}`, `{"tube_path":"a%2Fb","tube":"a/b","body_base64":"AP8=","state":"buried","pri":7,"ttr_seconds":0}`,
		`{"body":"x"}`, `{"tube":"` + strings.Repeat("t", 256) + `","body":"x"}`, `{"tube":"a","state":"delayed","left_seconds":1000.5,"body":"` + large + `"}`,
		`{"tube":"b","body":"` + large + large + `"}`, `{"tube":"a","body":"last","state":"reserved"}`, `{"tube":"a","half`,
	}
	v, slugs := w.putLines(lines...)
	expect(t, slugs == " bad-request bad-request   invalid invalid  too-large  bad-request" && v.Problem == nil, "%q, %+v", slugs, v.Problem)
	var ids []uint64
	for _, l := range v.Lines {
		if l.ID != 0 {
			ids = append(ids, l.ID)
		}
	}
	expect(t, fmt.Sprint(ids) == "[1 2 3 4 5]", "the ids are %v", ids)
	expect(t, get[wire.Tube](w, "/api/v1/tubes/a").JobsTotal == 4, "not four jobs are counted")
	noErr(t, os.CopyFS(crashed, os.DirFS(dir)))
	entries := w.audit("")
	expect(t, len(entries) == 1 && entries[0].Affected == 5 && entries[0].Detail == "5 of 11 lines", "%+v", entries)
	for _, w := range []*world{w, newWorld(t, setup{anonymous: access.Operate, dir: crashed, maxJob: 200_000})} {
		for i, want := range []string{"a ready 0 0 60 3", "a ready 0 0 60 1", "a/b buried 7 0 1 2", "a delayed 0 1001 60 150000", "a ready 0 0 60 4"} {
			j := get[wire.Job](w, fmt.Sprintf("/api/v1/jobs/%d", i+1))
			got := fmt.Sprint(j.Tube, " ", j.State, " ", j.Pri, " ", j.DelaySeconds, " ", j.TTRSeconds, " ", j.Size)
			expect(t, got == want && j.AgeSeconds < 60 && (j.LeftSeconds > 900) == (j.State == "delayed"), "job %d is %s, want %s: %+v", i+1, got, want, j)
		}
		expect(t, w.do("GET", "/api/v1/jobs/4/body", ask{}).body == large, "the large body is another one")
	}
}

// TestManyJobsWithAKeyArePutOnce, also if a line was refused.
func TestManyJobsWithAKeyArePutOnce(t *testing.T) {
	w := newWorld(t, setup{anonymous: access.Operate})
	header := maps.Clone(ndjson)
	header["Idempotency-Key"] = "k"
	a := ask{header: header, body: `{"tube":"a","body":"1"}` + "\nx\n"}
	first, second := w.do("POST", "/api/v1/jobs", a).wants(t, 200, ""), w.do("POST", "/api/v1/jobs", a).wants(t, 200, "")
	expect(t, first.body == second.body && second.header.Get("Idempotency-Replayed") == "true", "%s, %s", first.body, second.body)
	expect(t, get[wire.Tube](w, "/api/v1/tubes/a").JobsTotal == 1, "it was put twice")
}

// TestManyJobsHaveTheOrderOfTheirLines, in as many tubes as lines, and in one.
func TestManyJobsHaveTheOrderOfTheirLines(t *testing.T) {
	w := newWorld(t, setup{anonymous: access.Operate})
	var lines []string
	for i := range wire.LinesMax {
		tube := fmt.Sprint("t", i)
		if i >= 500 {
			tube = "one"
		}
		lines = append(lines, fmt.Sprintf(`{"tube":%q,"body":"%d"}`, tube, i))
	}
	v, slugs := w.putLines(lines...)
	expect(t, strings.TrimSpace(slugs) == "" && len(v.Lines) == wire.LinesMax, "%d lines: %s", len(v.Lines), slugs)
	for i, l := range v.Lines {
		require(t, l.ID == uint64(i+1), "line %d has the id %d", i, l.ID)
	}
	say := w.beanstalkd()
	say("watch one")
	got := say("reserve")
	expect(t, got == "RESERVED 501 3\r\n", "the first job: %q", got)
}

// TestFullDiskEndsManyJobsBetweenTwo: the answer has exactly the jobs that are there.
func TestFullDiskEndsManyJobsBetweenTwo(t *testing.T) {
	dir := t.TempDir()
	disk := &fillingDisk{Disk: wal.Dir(dir)}
	w := newWorld(t, setup{anonymous: access.Operate, dir: dir, disk: disk})
	line := `{"tube":"mail","body":"` + strings.Repeat("x", 30_000) + `"}`
	w.putLines(line)
	disk.full.Store(true)
	all := strings.TrimSuffix(strings.Repeat(line+"\n", 30), "\n")
	put := 1
	for range 100 {
		a := w.do("POST", "/api/v1/jobs", ask{header: ndjson, body: all})
		if a.status == 507 {
			a.wants(t, 507, "disk-full")
			break
		}
		v := as[wire.PutLines](t, a.wants(t, 200, ""))
		put += len(v.Lines)
		expect(t, (len(v.Lines) == 30) == (v.Problem == nil) && (v.Problem == nil || wire.DiskFull.Is(v.Problem)), "%d lines: %+v", len(v.Lines), v.Problem)
	}
	tube := get[wire.Tube](w, "/api/v1/tubes/mail")
	expect(t, tube.Jobs.Ready == uint64(put) && put > 1, "there are %d jobs, and %d were answered", tube.Jobs.Ready, put)
	w.do("POST", "/api/v1/jobs", ask{header: ndjson, body: all}).wants(t, 507, "disk-full")
}
