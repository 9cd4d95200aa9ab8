package http

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3filter"

	wire "polystalk/codec/admin"
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
	w := newWorld(t, setup{anonymous: "read"})
	const path, line = "/api/v1/jobs", `{"tube":"a","body":"x"}`
	worker := ask{token: operateToken, header: ndjson}
	with := func(body string) ask { a := worker; a.body = body; return a }
	w.do("POST", path, ask{header: ndjson, body: line}).wants(t, 403, "not-permitted")
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
	w := newWorld(t, setup{anonymous: "operate", dir: dir, maxJob: 200_000})
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
	for _, w := range []*world{w, newWorld(t, setup{anonymous: "operate", dir: crashed, maxJob: 200_000})} {
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
	w := newWorld(t, setup{anonymous: "operate"})
	header := maps.Clone(ndjson)
	header["Idempotency-Key"] = "k"
	a := ask{header: header, body: `{"tube":"a","body":"1"}` + "\nx\n"}
	first, second := w.do("POST", "/api/v1/jobs", a).wants(t, 200, ""), w.do("POST", "/api/v1/jobs", a).wants(t, 200, "")
	expect(t, first.body == second.body && second.header.Get("Idempotency-Replayed") == "true", "%s, %s", first.body, second.body)
	expect(t, get[wire.Tube](w, "/api/v1/tubes/a").JobsTotal == 1, "it was put twice")
}

// TestManyJobsHaveTheOrderOfTheirLines, in as many tubes as lines, and in one.
func TestManyJobsHaveTheOrderOfTheirLines(t *testing.T) {
	w := newWorld(t, setup{anonymous: "operate"})
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
	w := newWorld(t, setup{anonymous: "operate", dir: dir, disk: disk})
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

// TestUnreadAnswersToManyJobsHoldNobodyUp: clients that send many jobs, and read no answer, get them
// put. Other clients are served meanwhile, and the server keeps nothing when they go.
func TestUnreadAnswersToManyJobsHoldNobodyUp(t *testing.T) {
	w := newWorld(t, setup{anonymous: "operate", dir: t.TempDir()})
	line := `{"tube":"a","body":"x"}`
	body := strings.Repeat(line+"\n", 10) + strings.Repeat(strings.Repeat("?", 800)+"\n", wire.LinesMax-10) // each wrong line makes the answer longer
	open := w.web.connections.len()
	const clients = 20
	var all []net.Conn
	for range clients {
		conn := w.dial()
		noErr(t, conn.(*net.TCPConn).SetReadBuffer(1))
		fmt.Fprintf(conn, "POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", wire.LinesType, len(body), body)
		all = append(all, conn)
	}
	await(t, "all jobs are put", func() bool {
		a := w.do("GET", "/api/v1/tubes/a", ask{})
		return a.status == 200 && as[wire.Tube](t, a).JobsTotal == 10*clients
	})
	v, _ := w.putLines(line, line)
	expect(t, v.Lines[1].ID == 10*clients+2, "the last id is %d", v.Lines[1].ID)
	for _, conn := range all {
		conn.Close()
	}
	await(t, "the connections are closed", func() bool { return w.web.connections.len() <= open+1 })
}

// TestHalfARequestForManyJobsPutsNone: the client may send it again.
func TestHalfARequestForManyJobsPutsNone(t *testing.T) {
	w := newWorld(t, setup{anonymous: "operate"})
	body := strings.Repeat(`{"tube":"a","body":"x"}`+"\n", 100)
	for _, part := range []int{len(body) / 2, len(body) - 1} { // in the middle of a line, and before the last line end
		conn := w.dial()
		fmt.Fprintf(conn, "POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", wire.LinesType, len(body), body[:part])
		noErr(t, conn.(*net.TCPConn).CloseWrite())
		answer, err := io.ReadAll(conn) // to the end of the connection
		expect(t, err == nil && !strings.HasPrefix(string(answer), "HTTP/1.1 2"), "%v: %s", err, answer)
		w.do("GET", "/api/v1/tubes/a", ask{}).wants(t, 404, "not-found")
	}
}

// TestManyJobsByAFollower are put by the leader, with the result of each line.
func TestManyJobsByAFollower(t *testing.T) {
	p := newPair(t)
	body := strings.Repeat(`{"tube":"a","body":"`+strings.Repeat("x", 500)+`"}`+"\n", wire.LinesMax-1) + "no job\n"
	many := ask{token: operateToken, header: ndjson, body: body}
	v := as[wire.PutLines](t, p.follower.do("POST", "/api/v1/jobs", many).wants(t, 200, "").by(t, "n2"))
	require(t, len(v.Lines) == wire.LinesMax && v.Problem == nil, "%d lines, %+v", len(v.Lines), v.Problem)
	for i, l := range v.Lines {
		expect(t, l.ID == uint64(i+1) != (i == wire.LinesMax-1) && (l.Problem != nil) == (i == wire.LinesMax-1), "line %d: %+v", i, l)
	}
	p.follower.do("POST", "/api/v1/jobs", ask{token: readToken, header: ndjson, body: body}).wants(t, 403, "not-permitted")
	tube := as[wire.Tube](t, p.follower.do("GET", "/api/v1/tubes/a", ask{token: readToken}).wants(t, 200, "").by(t, "n2"))
	expect(t, tube.JobsTotal == wire.LinesMax-1, "the leader has %d jobs", tube.JobsTotal)
	p.leader.srv.Drain()
	p.follower.do("POST", "/api/v1/jobs", many).wants(t, 503, "draining").by(t, "n2")
	gone := newFollowerOf(t, func(*http.Request) (*http.Response, string, error) {
		return nil, "n2", wire.Uncertain.Problem("n2 has gone")
	})
	gone.do("POST", "/api/v1/jobs", many).wants(t, 503, "uncertain")
}
