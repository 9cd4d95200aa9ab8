package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"polystalk/cmd/polystalk/client"
	"polystalk/codec/gearman"
)

var exchangedFlag = flag.Int("exchanged", 500, "jobs of both protocols that are exported and imported")

// randomName is the name of a tube, or of a function if it has bytes that no tube name has.
func randomName(rng *rand.Rand, function bool) string {
	const letters = "abcXYZ019-+/;.$_()"
	b := make([]byte, 1+rng.IntN(30))
	for i := range b {
		if b[i] = letters[rng.IntN(len(letters))]; function {
			b[i] = max(1, byte(rng.Uint32())) // a NUL ends the name in a packet
		}
	}
	if function {
		return []string{string(b), "App::resize", "a b", ".", "..", "<é\u202e>", string(b) + strings.Repeat("x", 255-len(b))}[rng.IntN(7)]
	}
	return "t" + string(b)
}

// exported is how often each job is there that an export shows, by what an import keeps of it.
func exported(t *testing.T, text string) map[string]int {
	t.Helper()
	all := make(map[string]int)
	for line := range strings.Lines(text) {
		var j struct {
			Path  string `json:"tube_path"`
			State string `json:"state"`
			Pri   uint32 `json:"pri"`
			TTR   uint32 `json:"ttr_seconds"`
			Text  string `json:"body"`
			Coded []byte `json:"body_base64"`
		}
		if err := json.Unmarshal([]byte(line), &j); err != nil {
			t.Fatal(err)
		}
		all[fmt.Sprintf("%s %s %d %d %q", j.Path, j.State, j.Pri, j.TTR, j.Text+string(j.Coded))]++
	}
	return all
}

// TestEveryExportedJobCanBeImported: whatever the names and bodies are that clients of both
// protocols have put.
func TestEveryExportedJobCanBeImported(t *testing.T) {
	address := freeAddress(t)
	p, s := polystalkd(t, "--gearman-listen", address)
	tubes, err := net.Dial("tcp", s.Listen[0])
	if err != nil {
		t.Fatal(err)
	}
	defer tubes.Close()
	functions, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer functions.Close()
	rng := rand.New(rand.NewPCG(5, 6))
	kinds := []gearman.Type{gearman.SubmitJobBG, gearman.SubmitJobHighBG, gearman.SubmitJobLowBG}
	for i := range *exchangedFlag {
		body := make([]byte, rng.IntN(300))
		for k := range body {
			if body[k] = byte(rng.Uint32()); i%3 == 0 {
				body[k] = 'a' + body[k]%26
			}
		}
		conn, request := tubes, fmt.Appendf(nil, "use %s\r\nput %d 0 %d %d\r\n%s\r\n", randomName(rng, false), rng.Uint32(), rng.IntN(1000), len(body), body)
		answers := 2
		if i%2 == 0 {
			conn, request, answers = functions, gearman.AppendRequest(nil, kinds[rng.IntN(3)], []byte(randomName(rng, true)), nil, body), 0
		}
		if _, err := conn.Write(request); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 512)
		for n, more := 0, 0; bytes.Count(b[:n], []byte("\n")) < answers || n == 0; n += more {
			if more, err = conn.Read(b[n:]); err != nil {
				t.Fatal(err)
			}
		}
	}
	file := filepath.Join(t.TempDir(), "jobs")
	p.must(0, "export", "--all-tubes", "--file", file)
	q, other := polystalkd(t)
	if got := q.must(0, "import", file).stdout; got != fmt.Sprintf("import: %d jobs\n", *exchangedFlag) {
		t.Errorf("%q", got)
	}
	want := exported(t, p.must(0, "export", "--all-tubes").stdout)
	// By beanstalkd's protocol the names are told with escapes.
	for by, from := range map[string]*program{"HTTP": q, "beanstalkd's protocol": {t: t, server: "beanstalk://" + other.Listen[0]}} {
		got := exported(t, from.must(0, "export", "--all-tubes", "--id", fmt.Sprint("1-", *exchangedFlag)).stdout)
		if !maps.Equal(want, got) {
			t.Errorf("by %s, %d kinds of jobs have become %d", by, len(want), len(got))
		}
	}
}

// TestImportContinuesAfterALineThatIsNotTaken, and reports it.
func TestImportContinuesAfterALineThatIsNotTaken(t *testing.T) {
	long := strings.Repeat("x", 256)
	large := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("x"), 8<<20))
	lines := strings.Join([]string{
		`{"tube_path":"a","body":"1"}`, `{"tube_path":"` + long + `","body":"2"}`, `no job`, `{"tube_path":"a","body_base64":"` + large + `"}`,
		`{"tube_path":"App::resize","body":"5"}`, `{"tube_path":"a","body":"6","state":"buried"}`,
	}, "\n") + "\n"
	p, s := polystalkd(t)
	for server, wants := range map[string]struct {
		bad []int
		put string
	}{p.server: {[]int{2, 3, 4}, "import: 3 jobs\n"}, "beanstalk://" + s.Listen[0]: {[]int{2, 3, 4, 5}, "import: 2 jobs\n"}} {
		q := &program{t: t, server: server, in: lines}
		o := q.polystalk("import", "-")
		if o.code != client.NotDone || o.stdout != wants.put || strings.Count(o.stderr, "\n") != len(wants.bad)+1 || !strings.Contains(o.stderr, fmt.Sprint(len(wants.bad), " lines with errors")) {
			t.Errorf("%s: %d, %q, %q", server, o.code, o.stdout, o.stderr)
		}
		for _, n := range wants.bad {
			if !strings.Contains(o.stderr, fmt.Sprintf("polystalk: line %d was not put: ", n)) {
				t.Errorf("%s: nothing is said of line %d: %q", server, n, o.stderr)
			}
		}
	}
	p.in = `{"tube":"` + long + `","body":""}` + "\n"
	if o := p.polystalk("import", "-"); o.code != client.Usage || !utf8.ValidString(o.stderr) {
		t.Errorf("%d, %q", o.code, o.stderr)
	}
	p = admin(t)
	p.must(0, "drain", "on")
	p.in = strings.Repeat(`{"tube":"a","body":""}`+"\n", 3)
	if o := p.must(client.NotDone, "import", "-"); !strings.Contains(o.stderr, "To retry line 1 use --skip 0; to leave it out use --skip 1.") {
		t.Errorf("%q", o.stderr)
	}
}
