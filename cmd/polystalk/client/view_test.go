package client

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"polystalk/cmd/internal/program"
	"polystalk/codec/admin"
)

var view = View{
	Rows: "rows", Name: "name",
	Columns: []Column{{"NAME", "title|name", Text}, {"N", "in.n", Number}, {"AGE", "age", Age}},
	Wide:    []Column{{"LIST", "list", Text}},
}

const (
	part1 = `{"rows":[{"name":"a","in":{"n":18446744073709551615},"age":61,"list":["x","y"]}],"next":"2","matching":2}`
	part2 = `{"rows":[{"name":"long\u001b[2J","age":0.25,"list":[]}],"matching":2}`
)

func shown(t *testing.T, p *Printer, parts ...string) string {
	t.Helper()
	var b strings.Builder
	p.Out = &b
	must(t, p.Check())
	l := p.List(view)
	for _, part := range parts {
		must(t, l.Page([]byte(part)))
	}
	must(t, l.Close())
	return b.String()
}

func TestFormats(t *testing.T) {
	for _, tt := range []struct {
		p    *Printer
		want string
	}{
		{&Printer{}, "NAME                     N    AGE\na     18446744073709551615  1m01s\nlong\\x1B[2J                     -  250ms\n"},
		{&Printer{Format: "wide"}, "NAME                     N    AGE  LIST\na     18446744073709551615  1m01s  x,y\nlong\\x1B[2J                     -  250ms  -\n"},
		{&Printer{Format: "name"}, "a\nlong\\x1B[2J\n"},
		{&Printer{Format: "jsonl"}, `{"name":"a","in":{"n":18446744073709551615},"age":61,"list":["x","y"]}` + "\n" + `{"name":"long\u001b[2J","age":0.25,"list":[]}` + "\n"},
		{&Printer{Format: "jsonl", Filter: ".name"}, "a\nlong\x1b[2J\n"},
		{&Printer{Format: "jsonl", Filter: ".name", Screen: true}, "a\nlong\\x1B[2J\n"},
		{&Printer{Filter: ".matching, (.rows|length), .next"}, "2\n2\nnull\n"},
		{&Printer{Filter: ".rows[0].in.n"}, "18446744073709551615\n"},
	} {
		if got := shown(t, tt.p, part1, part2); got != tt.want {
			t.Errorf("%+v: %s\nwant %s", tt.p, got, tt.want)
		}
	}
	got := shown(t, &Printer{}, `{"rows":[{"name":"メール","in":{"n":1}},{"name":"e\u0301","in":{"n":2}}]}`)
	if want := "NAME    N  AGE\nメール  1    -\ne\u0301       2    -\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, parts := range [][]string{{part1, part2}, {part1}, {`{"rows":[],"matching":0}`}, {`{"rows":[]}`, part2}} {
		var got struct {
			Rows []json.RawMessage `json:"rows"`
			Next *string           `json:"next"`
		}
		text := shown(t, &Printer{Format: "json"}, parts...)
		if err := json.Unmarshal([]byte(text), &got); err != nil || got.Rows == nil || got.Next != nil {
			t.Errorf("%v: %v of %s", parts, err, text)
		}
	}
}

func TestSafe(t *testing.T) {
	for text, want := range map[string]string{
		"plain, ünicode 日本": "plain, ünicode 日本", "\x1b[31m": `\x1B[31m`, "a\nb\r\t": `a\nb\r\t`, "\x00\x7f": `\x00\x7F`, "\xff": `\xFF`,
		"\u009b2J": `\u009B2J`, "\u202egnp.exe": `\u202Egnp.exe`, "\u200b": `\u200B`, "\ufffd": "\ufffd",
	} {
		if got := program.Safe(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if got, want := program.IsText([]byte(text)), program.Safe(text) == text || strings.Contains(text, "\n"); got != want {
			t.Errorf("%q is text: %v", text, got)
		}
	}
	document := "{\n\t\"a\": \"\u009b\u202e\U000e0001\xff日\"}"
	got := safeJSON([]byte(document))
	var before, after any
	if json.Unmarshal([]byte(document), &before) != nil || json.Unmarshal(got, &after) != nil || before.(map[string]any)["a"] != after.(map[string]any)["a"] {
		t.Errorf("%q means something else than %q", got, document)
	}
	if want := "{\n\t\"a\": \"\\u009b\\u202e\\udb40\\udc01\ufffd日\"}"; string(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestFigures(t *testing.T) {
	for seconds, want := range map[float64]string{
		0: "0s", 0.0004: "0ms", 0.25: "250ms", 1: "1s", 59.9: "59s", 60: "1m00s", 3599: "59m59s", 3600: "1h00m", 86399: "23h59m", 86400: "1d00h", 1e9: "11574d01h", -1: "-",
	} {
		if got := FormatAge(seconds); got != want {
			t.Errorf("%v seconds: %s, want %s", seconds, got, want)
		}
	}
	for n, want := range map[float64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 12345: "12.3 kB", 999949: "999.9 kB", 999960: "1.0 MB", 2e18: "2.0 EB"} {
		if got := formatBytes(n); got != want {
			t.Errorf("%v bytes: %s, want %s", n, got, want)
		}
	}
	for member, want := range map[string]string{
		`null`: "-", `""`: "-", `"a\tb"`: `a\tb`, `true`: "yes", `false`: "no", `1.50`: "1.50", `[]`: "-", `["a","b"]`: "a,b", `[{"a":"\u001b"},2]`: `{"a":"\u001b"},2`, `{"b":[1]}`: `{"b":[1]}`,
	} {
		v, err := Decode([]byte(`{"x":` + member + `}`))
		must(t, err)
		if got := (Column{Path: "x"}).Cell(v); got != want {
			t.Errorf("%s: %q, want %q", member, got, want)
		}
	}
	for row, want := range map[string]string{
		`{}`: "-", `{"body":"hi\n"}`: `hi\n`, `{"body_base64":"AP8="}`: `\x00\xFF`, `{"body_base64":"?"}`: "-",
		`{"body":"` + strings.Repeat("é", 61) + `"}`: strings.Repeat("é", 60) + "…", `{"body":"a","body_truncated":true}`: "a…",
	} {
		v, err := Decode([]byte(row))
		must(t, err)
		if got := (Column{As: body}).Cell(v); got != want {
			t.Errorf("%s: %q, want %q", row, got, want)
		}
	}
}

// TestATableFitsTheTerminal: texts are cut and spare columns left out; -o wide and pipes show all.
func TestATableFitsTheTerminal(t *testing.T) {
	long := strings.Repeat("画", 66) + "xx"
	document := `{"tubes":[{"name":"` + long + `","jobs":{"ready":300000},"pause_left_seconds":60},{"name":"mail"}]}`
	for _, tt := range []struct {
		width   int
		format  string
		widest  int    // of the rows
		omitted string // these columns
	}{
		{0, "table", 220, ""}, {80, "wide", 335, ""}, {120, "table", 120, ""}, {100, "table", 100, "HELD-BY"},
		{88, "table", 88, "HELD-BY DELETE/S"}, {80, "table", 80, "HELD-BY DELETE/S PUT/S"}, {20, "table", 67, "HELD-BY DELETE/S PUT/S WAITING"},
	} {
		var b strings.Builder
		p := &Printer{Out: &b, Format: tt.format, Width: tt.width}
		must(t, p.Show([]byte(document), TubesView))
		lines := strings.Split(b.String(), "\n")
		widest := 0
		for _, line := range lines {
			widest = max(widest, ansi.StringWidthWc(line))
		}
		if cut := !strings.Contains(lines[1], long); widest != tt.widest || cut != (tt.width > 0 && tt.format == "table") {
			t.Errorf("%d %s: %d columns, want %d:\n%s", tt.width, tt.format, widest, tt.widest, b.String())
		}
		for _, c := range TubesView.Columns {
			if strings.Contains(lines[0], c.Head) == slices.Contains(strings.Fields(tt.omitted), c.Head) {
				t.Errorf("%d %s: column %s: %s", tt.width, tt.format, c.Head, lines[0])
			}
		}
	}
	for _, v := range []View{TubesView, JobsView, ConnectionsView, OperationsView, AuditView, ClusterView} {
		for _, head := range v.Spare {
			if !slices.ContainsFunc(v.Columns, func(c Column) bool { return c.Head == head }) {
				t.Errorf("%s has no column %s", v.Rows, head)
			}
		}
	}
}

// member returns the type of the struct member at this path; nil: none.
func member(t reflect.Type, path string) reflect.Type {
	name, rest, deeper := strings.Cut(path, ".")
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	for _, f := range reflect.VisibleFields(t) {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name {
			if deeper && f.Type.Kind() == reflect.Map {
				return f.Type.Elem()
			}
			if deeper {
				return member(f.Type, rest)
			}
			return f.Type
		}
	}
	return nil
}

func TestColumnsAreMembersOfTheAPI(t *testing.T) {
	for _, tt := range []struct {
		view View
		of   any
	}{
		{ServerView, admin.Server{}}, {TubeView, admin.Tube{}}, {JobView, admin.Job{}}, {PutView, admin.Put{}}, {HealthView, admin.Health{}},
		{ReloadView, admin.Reloaded{}}, {LogLevelView, admin.LogLevel{}}, {TubesView, admin.Tubes{}}, {JobsView, admin.Jobs{}}, {TransfersView, struct {
			Jobs []admin.Transfer `json:"jobs"`
		}{}}, {ConnectionsView, admin.ConnectionList{}}, {OperationsView, admin.Operations{}}, {AuditView, admin.Audit{}}, {ClusterView, admin.Cluster{}},
		{SessionView, admin.Session{}}, {IdentityView, admin.Identity{}}, {IdentitiesView, admin.Identities{}}, {DenialsView, admin.Denials{}},
		{PolicyView, admin.PolicyView{}}, {PoliciesView, admin.Policies{}},
	} {
		row := reflect.TypeOf(tt.of)
		if tt.view.Rows != "" {
			row = member(row, tt.view.Rows)
		}
		for _, c := range slices.Concat(tt.view.Columns, tt.view.Wide, []Column{{Path: tt.view.Name}}) {
			for path := range strings.SplitSeq(c.Path, "|") {
				if path != "" && member(row, path) == nil {
					t.Errorf("%v has no member %s for the column %s", row, path, c.Head)
				}
			}
		}
	}
}

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
