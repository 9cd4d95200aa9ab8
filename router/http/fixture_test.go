package http

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router"
	"polystalk/router/access"
	"polystalk/router/admin"
	"polystalk/shard/wal"
)

// The tokens of a world.
const (
	readToken    = "read-token-0123456789"
	bodiesToken  = "bodies-token-0123456789"
	operateToken = "operate-token-0123456789"
	adminToken   = "admin-token-0123456789"
)

// hangs is the timeout for events that normally happen at once. On a busy machine they may be late,
// but an event that is later than this never happens.
const hangs = time.Minute

// A world is a server with HTTP on a free port, and a client.
type world struct {
	t      testing.TB
	srv    *router.Server
	web    *API
	url    string
	addr   string
	access string // path of the access file
	logged *logged
	client *http.Client
}

// logged collects the log.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// setup configures a world.
type setup struct {
	anonymous string // see Door
	noTokens  bool   // there is no access file
	quotas    bool   // the access file holds for the queue too
	access    string // text of the access file; empty: accessText
	dir       string // of the journal; empty: no journal
	disk      wal.Disk
	unstarted bool
	maxJob    uint32
	cluster   admin.Cluster // nil: the server has no cluster
	options   func(*Options)
	prepare   func(*API) // called before the API serves
}

// identities are the tables of the access file, by name.
var identities = map[string]string{
	"reader": identity("reader", readToken, `role = "read"`),
	"looker": identity("looker", bodiesToken, "look = [\"*\"]\nserver = \"read\"\nbodies = \"full\""),
	"worker": identity("worker", operateToken, `role = "operate"`),
	"boss":   identity("boss", adminToken, `role = "admin"`),
}

func identity(name, token, rights string) string {
	return fmt.Sprintf("[identity.%s]\ntokens = [\"sha256:%x\"]\n%s\n", name, access.DigestOf(token), rights)
}

// accessText is the access file, without some identities.
func accessText(without ...string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(identities)) {
		if !slices.Contains(without, name) {
			b.WriteString(identities[name])
		}
	}
	return b.String()
}

// reload replaces the access file, and reads it again.
func (w *world) reload(text string) {
	w.t.Helper()
	next := w.access + ".next"
	noErr(w.t, os.WriteFile(next, []byte(text), 0o600))
	noErr(w.t, os.Rename(next, w.access))
	use, err := w.web.opts.Access.Prepare()
	noErr(w.t, err)
	use()
}

func newWorld(t testing.TB, with setup) *world {
	t.Helper()
	w := &world{t: t, logged: &logged{}, client: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 50}}}
	log := slog.New(slog.NewTextHandler(w.logged, nil))
	cfg := router.Config{Loops: 1, Shards: 4, Log: log, MaxJobSize: with.maxJob, Version: "1.2.3", Cluster: with.cluster}
	if with.dir != "" {
		cfg.Journal = &router.Journal{Dir: with.dir, SegmentSize: 1 << 20, Disk: with.disk}
	}
	var listed *access.Identities
	if !with.noTokens {
		w.access = filepath.Join(t.TempDir(), "access.toml")
		text := with.access
		if text == "" {
			text = accessText()
		}
		noErr(t, os.WriteFile(w.access, []byte(text), 0o600))
		ids, err := access.Open(w.access)
		noErr(t, err)
		if listed = ids; with.quotas { // clients of the queue need rights then
			cfg.Access = ids
		}
	}
	srv, err := router.New(cfg)
	noErr(t, err)
	w.srv = srv
	o := Options{
		Operator: srv.Operator(), Log: log, Version: "v1", Speaks: "both", Level: new(slog.LevelVar), MetricsTubes: 200,
		Rules: Rules{
			Hosts: []string{"queue.example"}, Origins: []string{"https://ops.example"},
			Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Bodies: access.Full,
		},
		Reload: func() (*wire.Reloaded, error) {
			return &wire.Reloaded{Applied: []wire.Change{{Name: "max-job-size", From: "1", To: "2", Origin: "file x:1"}}, Restart: []wire.Change{}}, nil
		},
		CertificateEnds: func() map[string]time.Time { return map[string]time.Time{"http": time.Unix(2e9, 0)} },
		Settings:        func() []wire.Setting { return []wire.Setting{{Name: "port", Value: "11300", Origin: "default"}} },
	}
	o.Access = listed
	if with.options != nil {
		with.options(&o)
	}
	w.web, err = New(o)
	noErr(t, err)
	if with.prepare != nil {
		with.prepare(w.web)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	noErr(t, err)
	served := make(chan error, 1)
	go func() { served <- w.web.Serve(l, Door{Anonymous: with.anonymous}) }()
	w.addr = l.Addr().String()
	w.url = "http://" + w.addr
	if !with.unstarted {
		w.start()
	}
	t.Cleanup(func() {
		w.client.CloseIdleConnections()
		w.web.Close()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		if !with.unstarted {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			err := srv.Shutdown(ctx)
			expect(t, err == nil, "Shutdown: %v", err)
		}
	})
	return w
}

func (w *world) start() {
	w.t.Helper()
	noErr(w.t, w.srv.Start())
}

// An ask is a request.
type ask struct {
	token  string
	header map[string]string
	body   string
	json   bool // send Content-Type: application/json
	host   string
}

// An answer is the answer to an ask.
type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request; target is an encoded path, with or without a query.
func (w *world) do(method, target string, a ask) *answer {
	w.t.Helper()
	var body io.Reader
	if a.body != "" {
		body = strings.NewReader(a.body)
	}
	r, err := http.NewRequest(method, w.url+target, body)
	noErr(w.t, err)
	if a.token != "" {
		r.Header.Set("Authorization", "Bearer "+a.token)
	}
	if a.json {
		r.Header.Set("Content-Type", "application/json")
	}
	for k, v := range a.header {
		r.Header.Set(k, v)
	}
	r.Host = a.host
	resp, err := w.client.Do(r)
	noErr(w.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	noErr(w.t, err)
	got := &answer{resp.StatusCode, resp.Header, string(b)}
	w.validate(r, a, got)
	for name, want := range securityHeaders {
		is := got.header.Get(name)
		own := name == "Content-Security-Policy" && is == consolePolicy || name == "Cache-Control" && got.header.Get("ETag") != ""
		expect(w.t, is == want || own, "%s %s: %s is %q", method, target, name, is)
	}
	expect(w.t, got.header.Get("Access-Control-Allow-Origin") == "" && got.header.Get("X-Request-Id") != "", "%s %s: %v", method, target, got.header)
	return got
}

// wants fails the test unless the answer has the status and is a problem of the kind slug, if given.
func (a *answer) wants(t testing.TB, status int, slug string) *answer {
	t.Helper()
	expect(t, a.status == status, "status %d, want %d: %s", a.status, status, a.body)
	if slug == "" {
		return a
	}
	p := as[wire.Problem](t, a)
	if p.Type != wire.ProblemPath+slug || p.Status != status || p.Title == "" || p.Remedy == "" || p.RequestID == "" ||
		p.RequestID != a.header.Get("X-Request-Id") || a.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("the problem is %s, want one of the kind %s", a.body, slug)
	}
	return a
}

// read decodes the answer's JSON.
func (a *answer) read(t testing.TB, v any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(a.body))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	require(t, err == nil, "%v: %s", err, a.body)
}

// problem returns the answer's problem.
func (a *answer) problem(t testing.TB) *wire.Problem {
	t.Helper()
	p := as[wire.Problem](t, a)
	return &p
}

// octets is the header of a raw body.
var octets = map[string]string{"Content-Type": "application/octet-stream"}

func newJob(tube, body string) admin.NewJob {
	return admin.NewJob{Tube: tube, TTR: 60, Body: []byte(body)}
}

// beanstalkd connects a client of beanstalkd's protocol. The function sends a line and returns the
// first line of the reply; it skips a body.
func (w *world) beanstalkd() func(line string) string {
	w.t.Helper()
	conn := w.connect(w.srv.Serve)
	r := bufio.NewReader(conn)
	return func(line string) string {
		fmt.Fprintf(conn, "%s\r\n", line)
		got, err := r.ReadString('\n')
		noErr(w.t, err)
		if strings.HasPrefix(got, "RESERVED ") {
			r.ReadString('\n') // the body
		}
		return got
	}
}

// function registers a Gearman worker for a function, so that its tube exists until release is
// called.
func (w *world) function(name string) (release func()) {
	w.t.Helper()
	conn := w.gear(request(1, name))
	for range 1000 {
		if _, err := w.srv.Operator().Tube(context.Background(), name); err == nil {
			return func() { conn.Close() }
		}
		time.Sleep(5 * time.Millisecond)
	}
	w.t.Fatalf("there is no function %q", name)
	return nil
}

// connect connects to a new listener that serve serves.
func (w *world) connect(serve func(net.Listener) error) net.Conn {
	w.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	noErr(w.t, err)
	go serve(l)
	conn, err := net.Dial("tcp", l.Addr().String())
	noErr(w.t, err)
	w.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(hangs))
	return conn
}

// testRoutes are all routes, without a server.
var testRoutes = new(API).allRoutes()

// long skips a test that takes longer than a second under -short.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("long")
	}
}

// noErr ends the test if there is an error.
func noErr(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// as decodes the JSON of an answer.
func as[T any](t testing.TB, a *answer) (v T) {
	t.Helper()
	a.read(t, &v)
	return v
}

// get decodes the answer to GET path, with or without a token. The status must be 200.
func get[T any](w *world, path string, token ...string) T {
	w.t.Helper()
	return as[T](w.t, w.do("GET", path, ask{token: strings.Join(token, "")}).wants(w.t, 200, ""))
}

// has fails the test unless the body contains all parts.
func (a *answer) has(t testing.TB, parts ...string) *answer {
	t.Helper()
	for _, part := range parts {
		expect(t, strings.Contains(a.body, part), "there is no %q in %s", part, a.body)
	}
	return a
}

// field fails the test unless the answer is a problem about the field name.
func (a *answer) field(t testing.TB, name string) *answer {
	t.Helper()
	p := a.problem(t)
	expect(t, p.Field == name, "the field is %q, want %q: %s", p.Field, name, a.body)
	return a
}

// expect fails the test unless ok, but lets it continue.
func expect(t testing.TB, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Errorf(format, args...)
	}
}

// require ends the test unless ok.
func require(t testing.TB, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Fatalf(format, args...)
	}
}

// heap returns the bytes in use after a garbage collection.
func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// audit returns the newest entries of the audit.
func (w *world) audit(query string) []wire.Entry {
	w.t.Helper()
	return get[wire.Audit](w, "/api/v1/audit"+query, adminToken).Entries
}

// writeFile writes a text to a new file.
func writeFile(t testing.TB, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "file")
	noErr(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
