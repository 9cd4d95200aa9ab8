package top

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"polystalk/cmd/polystalk/client"
	"polystalk/codec/admin"
)

func TestFlow(t *testing.T) {
	at := time.Unix(1000, 0).UTC()
	f := &fake{parts: [][]byte{[]byte(`{"tubes":[],"matching":0}`)}, whole: true}
	s := sourceOf(f)
	look := func(seconds int, put, deleted uint64) *flow {
		t.Helper()
		f.server = document(t, admin.Server{AsOf: at.Add(time.Duration(seconds) * time.Second), Events: map[string]uint64{"put": put, "reserve": 3 * put, "delete": deleted, "timeout": 0}})
		sample, err := s.read(t.Context(), wanted{view: tubes, sort: "name"})
		if err != nil || !sample.whole {
			t.Fatal(err)
		}
		return sample.flow
	}
	if got := look(0, 100, 50); got != nil {
		t.Errorf("the first look has %v", got)
	}
	if got := look(2, 120, 51); got == nil || *got != (flow{10, 30, 0.5, 0}) {
		t.Errorf("20 in 2 s: %v", got)
	}
	if got := look(2, 120, 51); got == nil || got.put != 10 {
		t.Errorf("the same reading again: %v", got)
	}
	if got := look(3, 5, 0); got != nil {
		t.Errorf("a server that was started anew: %v", got)
	}
	if got := look(4, 6, 0); got == nil || got.put != 1 {
		t.Errorf("and then: %v", got)
	}
}

// TestRatesComeFromCounters, if the server does not report them.
func TestRatesComeFromCounters(t *testing.T) {
	f := &fake{server: []byte(`{"version":"1.12","jobs":{"ready":4,"buried":1},"jobs_total":10,"job_timeouts_total":0,"connections":{"open":1}}`)}
	f.parts = [][]byte{[]byte(`{"tubes":[{"name":"a","path":"a","jobs_total":10,"deletes_total":5},{"path":7},null,3],"matching":1}`)}
	s := sourceOf(f)
	w := wanted{view: tubes, sort: "name", match: "a", rows: 5}
	sample, err := s.read(t.Context(), w)
	if err != nil || sample.whole || sample.flow != nil || cells(sample.rows[:1], "rates.put_per_second")[0] != "-" {
		t.Fatalf("%+v, %v", sample, err)
	}
	if q := f.queries[0]; q.Query.Get("match") != "*a*" || q.Limit != 5 || q.Query.Get("sort") != "name" {
		t.Errorf("asked for %+v", q)
	}
	s.before.at = s.before.at.Add(-10 * time.Second)
	r := s.tubes["a"]
	r.at = r.at.Add(-10 * time.Second)
	s.tubes["a"] = r
	f.server = []byte(`{"jobs":{"ready":10},"jobs_total":1010,"job_timeouts_total":0}`)
	f.parts = [][]byte{[]byte(`{"tubes":[{"name":"a","path":"a","jobs_total":1010,"deletes_total":505}],"matching":1}`)}
	if sample, err = s.read(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	near := func(got, want float64) bool { return got > want*0.9 && got <= want } // a bit more than 10 s have passed
	if got := sample.flow; got == nil || !near(got.put, 100) || !near(got.delete, 99.5) {
		t.Errorf("%+v", got)
	}
	if put := number(sample.rows[0].(map[string]any)["rates"].(map[string]any)["put_per_second"]); !near(put, 100) {
		t.Errorf("put/s of the tube is %v", put)
	}
	// A new tube with the same name counts from zero.
	f.parts = [][]byte{[]byte(`{"tubes":[{"name":"a","path":"a","jobs_total":1,"deletes_total":0}],"matching":1}`)}
	if sample, err = s.read(t.Context(), w); err != nil || cells(sample.rows, "rates.put_per_second")[0] != "-" {
		t.Errorf("%v, %v", sample.rows, err)
	}
	if _, err := s.read(t.Context(), wanted{view: connections}); client.ExitCode(err) != client.Usage || !strings.Contains(err.Error(), "--http") {
		t.Errorf("connections: %v", err)
	}
}

// TestConnectionsAreSortedAndFiltered.
func TestConnectionsAreSortedAndFiltered(t *testing.T) {
	var all admin.ConnectionList
	for i, peer := range []string{"10.0.0.9:1", "10.0.0.1:2", "unix", "10.0.0.5:3"} {
		of := admin.NameOf(fmt.Sprint("t", i))
		all.Connections = append(all.Connections, admin.Connection{ID: uint64(i + 9), Peer: peer, Holding: uint32(i % 3), HoldSeconds: float64(i), Used: &of, Watched: []admin.TubeName{of, admin.NameOf("a/b")}})
	}
	f := &fake{server: []byte(`{}`), parts: [][]byte{document(t, all), []byte(`{"connections":[]}`)}, whole: true}
	s := sourceOf(f)
	for _, tt := range []struct{ sort, match, want string }{
		{"-holds", "", "11 10 9 12"}, {"holds", "", "9 12 10 11"}, {"id", "", "9 10 11 12"}, {"-id", "", "12 11 10 9"}, {"peer", "", "10 12 9 11"},
		{"-for", "", "12 11 10 9"}, {"id", "10.0", "9 10 12"}, {"id", "t2", "11"}, {"id", "*a/b*", "9 10 11 12"}, {"id", "nobody", ""}, {"id", "10.0.0.[15]:*", "10 12"},
	} {
		sample, err := s.read(t.Context(), wanted{connections, tt.match, tt.sort, 5})
		must(t, err)
		if got := strings.Join(cells(sample.rows, "id"), " "); got != tt.want || sample.matching != len(sample.rows) {
			t.Errorf("%s, %q: %s, want %s", tt.sort, tt.match, got, tt.want)
		}
	}
	if _, err := s.read(t.Context(), wanted{connections, "[", "id", 5}); client.ExitCode(err) != client.Usage {
		t.Errorf("a pattern that is none: %v", err)
	}
	sample, err := s.read(t.Context(), wanted{connections, "", "id", 5})
	must(t, err)
	head, lines := layout(connections.columns, sample.rows, 0, "-holds")
	if !strings.Contains(head, "HOLDS▼") || !strings.Contains(lines[0], "t0,a/b") {
		t.Errorf("%s\n%s", head, lines)
	}
}

// TestSourceConnectsAgainAfterAFailureOfTheServer, and only then.
func TestSourceConnectsAgainAfterAFailureOfTheServer(t *testing.T) {
	dialled := 0
	f := &fake{server: []byte(`{}`), parts: [][]byte{[]byte(`{"tubes":[]}`)}}
	s := &Source{Dial: func(context.Context) (client.Server, error) {
		if dialled++; dialled == 2 {
			return nil, errors.New("nobody is there")
		}
		return f, nil
	}}
	w := wanted{view: tubes, sort: "name"}
	for i, tt := range []struct {
		err  error
		dial int
		ok   bool
	}{{nil, 1, true}, {client.Errorf(client.Usage, "no"), 1, false}, {nil, 1, true}, {errors.New("broken"), 1, false}, {nil, 2, false}, {nil, 3, true}, {nil, 3, true}} {
		f.err = tt.err
		if _, err := s.read(t.Context(), w); (err == nil) != tt.ok || dialled != tt.dial {
			t.Errorf("look %d: %v, connected %d times", i, err, dialled)
		}
	}
	if f.closed != 1 {
		t.Errorf("closed %d times", f.closed)
	}
}

// TestBadAnswers: a list without rows is an error; unusual rows are shown if possible.
func TestBadAnswers(t *testing.T) {
	for _, text := range []string{``, `[]`, `{}`, `{"tubes":1}`, `{"tubes":{"a":1}}`, `{"tubes":[1],"matching":"x"}`, `null`} {
		s := sourceOf(&fake{server: []byte(`{}`), parts: [][]byte{[]byte(text)}})
		if _, err := s.read(t.Context(), wanted{view: tubes, sort: "name"}); client.ExitCode(err) != client.System {
			t.Errorf("%s: %v", text, err)
		}
		s = sourceOf(&fake{server: []byte(text)})
		if _, err := s.read(t.Context(), wanted{view: tubes, sort: "name"}); err == nil && !slices.Contains([]string{`{}`, `null`, `{"tubes":{"a":1}}`}, text) && strings.HasPrefix(text, "[") {
			t.Errorf("the server is %s: %v", text, err)
		}
	}
	f := &fake{server: []byte(`{"uptime_seconds":-5}`), parts: [][]byte{[]byte(`{"tubes":[null,1,"x",[],{"name":{"a":"\u001b"},"jobs":[1],"rates":"y","path":[]}]}`)}}
	sample, err := sourceOf(f).read(t.Context(), wanted{view: tubes, sort: "name"})
	must(t, err)
	if _, lines := layout(tubes.columns, sample.rows, 80, "name"); len(lines) != 5 || strings.Contains(strings.Join(lines, ""), "\x1b") {
		t.Errorf("%q", lines)
	}
}

// TestPlainWritesATableForEachUpdate, and reports failures.
func TestPlainWritesATableForEachUpdate(t *testing.T) {
	f := &fake{server: []byte(`{"version":"1.12"}`), parts: [][]byte{document(t, admin.Tubes{Tubes: tubesNamed(hostile...), Matching: 99})}}
	options := Options{Server: "x", Every: everyMin, Count: 3, Limit: 5}
	var b strings.Builder
	var said []string
	looks := 0
	s := &Source{Dial: func(context.Context) (client.Server, error) {
		if looks++; looks == 2 {
			return nil, errors.New("nobody")
		}
		return &once{fake: f}, nil
	}}
	err := Plain(t.Context(), s, options, &b, func() error { return nil }, func(err error) { said = append(said, err.Error()) })
	text := b.String()
	if err == nil || err.Error() != "nobody" || strings.Count(text, "polystalk top") != 1 || !slices.Equal(said, []string{onlyPolystalkd, "gone"}) {
		t.Errorf("%v, %q\n%s", err, said, text)
	}
	if !strings.Contains(text, "tubes 1–5 of 99  by -ready\n") || strings.ContainsAny(text, "\x1b\x07\r\t") || strings.Count(text, "\n") != headLines+2+5 {
		t.Errorf("%s", text)
	}
	for _, tt := range []struct {
		o    Options
		want string
	}{
		{Options{Every: everyMax + 1, Limit: 1}, "-d"}, {Options{Every: everyMin, Limit: rowsMax + 1}, "--limit"}, {Options{Every: everyMin, Limit: 1, Sort: "-name"}, "--sort"},
		{Options{Every: everyMin, Limit: 1, Sort: "-"}, "--sort"}, {Options{Every: everyMin, Limit: 1, Sort: "ready", Connections: true}, "--sort"}, {Options{Every: everyMin, Limit: 1, Sort: "holds"}, "--sort"},
	} {
		err := Plain(t.Context(), s, tt.o, &b, nil, nil)
		if client.ExitCode(err) != client.Usage || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "give") {
			t.Errorf("%+v: %v", tt.o, err)
		}
		if err := Screen(t.Context(), s, tt.o, nil, nil); client.ExitCode(err) != client.Usage {
			t.Errorf("%+v on a screen: %v", tt.o, err)
		}
	}
}

// A once is a server that answers one request.
type once struct {
	*fake
	looked bool
}

func (o *once) Ask(ctx context.Context, q client.Request) (client.Answer, error) {
	if o.looked {
		return client.Answer{}, errors.New("gone")
	}
	o.looked = true
	return o.fake.Ask(ctx, q)
}
