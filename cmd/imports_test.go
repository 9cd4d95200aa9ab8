package cmd

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// imports.txt lists what each package imports: packages of the module by folder, and
// libraries by their name in the list below. What only the tests of a package import
// follows a bar. The file is a record for the reader of a change: a new arrow shows as a
// changed line. The laws below decide which arrows are allowed.
const importsFile = "testdata/imports.txt"

var rewrite = flag.Bool("rewrite", false, "write the imports of each package to "+importsFile)

// A row is one line of imports.txt.
type row struct{ folder, imports, tests string }

// libraries are the only ones that the modules use; go.mod says what for, for what makes
// releases cmd/release/go.mod.
var libraries = map[string]string{
	"apimachinery":         "k8s.io/apimachinery",
	"ar":                   "github.com/blakesmith/ar",
	"automemlimit":         "github.com/KimMachineGun/automemlimit",
	"bubbletea":            "charm.land/bubbletea/v2",
	"bytebufferpool":       "github.com/valyala/bytebufferpool",
	"cdproto":              "github.com/chromedp/cdproto",
	"chromedp":             "github.com/chromedp/chromedp",
	"client_golang":        "github.com/prometheus/client_golang",
	"cobra":                "github.com/spf13/cobra",
	"compose-go":           "github.com/compose-spec/compose-go/v2",
	"expfmt":               "github.com/prometheus/common",
	"gnet":                 "github.com/panjf2000/gnet/v2",
	"go-beanstalk":         "github.com/beanstalkd/go-beanstalk",
	"go-containerregistry": "github.com/google/go-containerregistry",
	"go-systemd":           "github.com/coreos/go-systemd/v22",
	"go-json":              "github.com/go-json-experiment/json",
	"go-toml":              "github.com/pelletier/go-toml/v2",
	"gojq":                 "github.com/itchyny/gojq",
	"hdrhistogram":         "github.com/HdrHistogram/hdrhistogram-go",
	"jsonschema":           "github.com/santhosh-tekuri/jsonschema/v6",
	"k8s-api":              "k8s.io/api",
	"porcupine":            "github.com/anishathalye/porcupine",
	"kin-openapi":          "github.com/getkin/kin-openapi",
	"nfpm":                 "github.com/goreleaser/nfpm/v2",
	"pflag":                "github.com/spf13/pflag",
	"protobuf":             "google.golang.org/protobuf",
	"raft":                 "go.etcd.io/raft/v3",
	"rpmutils":             "github.com/sassoftware/go-rpmutils",
	"spdx":                 "github.com/spdx/tools-golang",
	"sprig":                "github.com/Masterminds/sprig/v3",
	"yaml":                 "sigs.k8s.io/yaml",
	"x/ansi":               "github.com/charmbracelet/x/ansi",
	"x/sync":               "golang.org/x/sync",
	"x/sys":                "golang.org/x/sys",
	"x/time":               "golang.org/x/time",
	"x/term":               "golang.org/x/term",
	"xxhash":               "github.com/cespare/xxhash/v2",
}

// A law holds for the rows of a folder and of those below it, so that the table
// is not widened without a thought. With only, nothing else of the module may be
// imported than those folders and what lies below them, and nothing of never.
type law struct {
	folder      string
	only, never string
	tests       bool // it holds for tests as well
	why         string
}

var laws = []law{
	{folder: "codec", only: "codec", tests: true, why: "a codec knows bytes and values, no server"},
	{folder: "shard", only: "shard", tests: true, why: "the state knows neither bytes nor connections"},
	{folder: "shard/core", only: "shard/listindex shard/record shard/slab shard/stats", why: "the core is deterministic, and what it imports is too"},
	{folder: "shard/commit", only: "shard/record shard/stats shard/wal", why: "it makes commits durable, whatever changes jobs"},
	{folder: "shard/wal", never: "shard/commit", why: "it stores what was proposed or committed, and knows no proposals"},
	{folder: "shard/wal/space", only: "shard/record", why: "it is arithmetic, and knows no files"},
	{folder: "router", only: "router codec shard", tests: true, why: "a server does not know its programs"},
	{folder: "router/direct", only: "router/ops shard", why: "operations from goroutines that may block know no connection"},
	{folder: "router/ops", never: "codec gnet router/session", why: "operations over shards work without a connection"},
	{folder: "router/session", never: "codec gnet router/reactor shard/wal", why: "a session serves any protocol, over any transport"},
	{folder: "router/beanstalkd", never: "router/gearmand gnet", why: "protocols do not know each other"},
	{folder: "router/gearmand", never: "router/beanstalkd gnet", why: "protocols do not know each other"},
	{folder: "router/cluster/bootstrap", only: "router/cluster shard/wal", why: "it decides by what servers answer, and is given how to reach them"},
	{folder: "router/cluster/forward", only: "codec/admin router/cluster/transport", why: "it carries bytes and requests to the leader, and is given how to reach it"},
	{folder: "router/cluster/transport", only: "router/access", why: "to the transport, messages and streams are bytes"},
	{folder: "router", never: "router/http", why: "HTTP is served around a server: only programs serve it"},
	{folder: "router/admin", never: "gnet", why: "what operators do does not depend on how they ask"},
	{folder: "router/http", never: "gnet router/reactor", why: "HTTP has goroutines of its own, off the path of the protocols"},
	{folder: "router/trend", never: "gnet", why: "history is made of samples, whatever serves it"},
	{folder: "router/access", only: "router/access codec/tomlfile", why: "who may do what has nothing to do with how it is asked, or of whom"},
	{folder: "cmd", only: "cmd router codec shard", tests: true, why: "the load generator is a program by itself"},
	{folder: "cmd/release", only: "cmd/release", tests: true, why: "it is a module of its own, and learns what it must know from what it builds"},
	{folder: "cmd/polystalk/client", never: "router shard", why: "a client knows what servers answer, not how they work"},
	{folder: "cmd/polystalk/cli", never: "router shard", why: "a client knows what servers answer, not how they work"},
	{folder: "cmd/polystalkd/e2e", never: "router shard/core cmd/polystalkd/config", tests: true, why: "these tests see the program from outside"},
	{folder: "loadtest", only: "loadtest codec", tests: true, why: "it drives other servers too"},
}

// gnetFolders may import gnet: sessions work with other transports, and loadtest/bench is
// the constant server that the load generator itself is measured against.
var gnetFolders = []string{"router/reactor/", "loadtest/bench/"}

// tlsFolders may import crypto/tls: sessions and protocols do not know whether a client uses it.
var tlsFolders = []string{"router/reactor/", "router/server.go", "router/cluster/transport/", "cmd/polystalkd/", "cmd/polystalk/client/", "loadtest/bench/"}

// short is the name of an import in the table; empty for one of the standard
// library. What is neither a package of the module nor a library of the list
// stays as it is.
func short(imported string) string {
	if imported == module {
		return "."
	}
	if folder, ours := strings.CutPrefix(imported, module+"/"); ours {
		return folder
	}
	for name, root := range libraries {
		if within(imported, root) {
			return name
		}
	}
	if first, _, _ := strings.Cut(imported, "/"); strings.Contains(first, ".") || imported == "C" {
		return imported
	}
	return ""
}

// rows are what the packages of all do import; what tests import is named in
// tests only if the package itself does not.
func rows(all []*source) []row {
	type set = map[string]bool
	built, tests := make(map[string]set), make(map[string]set)
	for _, s := range all {
		if built[s.dir()] == nil {
			built[s.dir()], tests[s.dir()] = make(set), make(set)
		}
		to := built
		if s.isTest() {
			to = tests
		}
		for _, imported := range s.imports() {
			if name := short(imported); name != "" && name != s.dir() {
				to[s.dir()][name] = true
			}
		}
	}
	var found []row
	for _, folder := range slices.Sorted(maps.Keys(built)) {
		maps.DeleteFunc(tests[folder], func(name string, _ bool) bool { return built[folder][name] })
		found = append(found, row{folder,
			strings.Join(slices.Sorted(maps.Keys(built[folder])), " "),
			strings.Join(slices.Sorted(maps.Keys(tests[folder])), " ")})
	}
	return found
}

func (r row) String() string {
	text := r.folder + ": " + r.imports
	if r.tests != "" {
		text += " | " + r.tests
	}
	return strings.TrimRight(text, " ") + "\n"
}

// lawFaults lists the rows that break a law, and what in a row is neither a
// package nor a library.
func lawFaults(table []row, laws []law) []string {
	var faults []string
	ours := func(name string) bool {
		return slices.ContainsFunc(table, func(r row) bool { return r.folder == name })
	}
	// any reports whether name is one of the folders or libraries in list, or lies below one.
	any := func(list, name string) bool {
		return slices.ContainsFunc(strings.Fields(list), func(folder string) bool { return within(name, folder) })
	}
	for _, r := range table {
		for name := range strings.FieldsSeq(r.imports + " " + r.tests) {
			if _, library := libraries[name]; !library && !ours(name) {
				faults = append(faults, r.folder+": "+name+" is neither a package of the module nor a library of the list")
			}
		}
		for _, l := range laws {
			if !within(r.folder, l.folder) {
				continue
			}
			names := r.imports
			if l.tests {
				names += " " + r.tests
			}
			for name := range strings.FieldsSeq(names) {
				if l.only != "" && ours(name) && !any(l.only, name) || any(l.never, name) {
					faults = append(faults, fmt.Sprintf("%s must not import %s: %s", r.folder, name, l.why))
				}
			}
		}
	}
	return faults
}

// testLibraries may be imported by tests and by each other only: they are no part of a
// program.
var testLibraries = []string{"codec/conversation", "cmd/polystalkd/e2e"}

// libraryFaults lists the packages that import a test library and are none.
func libraryFaults(table []row, libraries []string) []string {
	in := func(name string) bool {
		return slices.ContainsFunc(libraries, func(folder string) bool { return within(name, folder) })
	}
	var faults []string
	for _, r := range table {
		for name := range strings.FieldsSeq(r.imports) {
			if in(name) && !in(r.folder) {
				faults = append(faults, r.folder+" must not import "+name+": only tests do")
			}
		}
	}
	return faults
}

// folderFaults lists the files that import a library outside of the folders in may. Tests may import the
// standard library.
func folderFaults(all []*source, library string, may []string) []string {
	var faults []string
	for _, s := range all {
		allowed := slices.ContainsFunc(may, func(prefix string) bool { return strings.HasPrefix(s.name, prefix) })
		if !allowed && slices.ContainsFunc(s.imports(), func(imported string) bool { return short(imported) == library || imported == library && !s.isTest() }) {
			faults = append(faults, s.name+" imports "+library+": only "+strings.Join(may, ", ")+" may")
		}
	}
	return faults
}

func TestImportsKeepTheLaws(t *testing.T) {
	all := readTree(t)
	found := rows(all)
	for _, f := range slices.Concat(lawFaults(found, laws), libraryFaults(found, testLibraries), folderFaults(all, "gnet", gnetFolders),
		folderFaults(all, "crypto/tls", tlsFolders)) {
		t.Error(f)
	}
	for name := range libraries {
		if !slices.ContainsFunc(found, func(r row) bool {
			return slices.Contains(strings.Fields(r.imports+" "+r.tests), name)
		}) {
			t.Errorf("%s is in the list of libraries, and no package imports it", name)
		}
	}
}

func TestImportsAreRecorded(t *testing.T) {
	var text strings.Builder
	for _, r := range rows(readTree(t)) {
		text.WriteString(r.String())
	}
	if *rewrite {
		if err := os.WriteFile(importsFile, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	recorded, err := os.ReadFile(importsFile)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.SplitAfter(string(recorded), "\n")
	for line := range strings.Lines(text.String()) {
		if i := slices.Index(want, line); i >= 0 {
			want = slices.Delete(want, i, i+1)
		} else {
			t.Errorf("not in %s: %s", importsFile, line)
		}
	}
	if left := strings.Join(want, ""); left != "" {
		t.Errorf("only in %s:\n%sgo test ./cmd -run Recorded -rewrite brings it up to date", importsFile, left)
	}
}

func TestLawFaultsAreFound(t *testing.T) {
	others := []row{ // what the row under test may name
		{"cmd/polystalkd", "", ""}, {"codec", "", ""}, {"shard", "", ""}, {"shard/record", "", ""}, {"shard/wal", "", ""},
		{"router", "", ""}, {"router/gearmand", "", ""}, {"router/session", "", ""},
	}
	for _, tt := range []struct {
		row  row
		want int
	}{
		{row{"codec/x", "codec x/sys", ""}, 0},
		{row{"codec/x", "shard", ""}, 1},
		{row{"codec/x", "", "router"}, 1},
		{row{"shard/x", "codec shard", ""}, 1},
		{row{"shardlike", "codec", ""}, 0},
		{row{"shard/core", "shard/record xxhash", "shard/wal"}, 0},
		{row{"shard/core", "shard/wal", ""}, 1},
		{row{"router/x", "codec shard router", ""}, 0},
		{row{"router/x", "cmd/polystalkd", ""}, 1},
		{row{"router/ops", "codec", ""}, 1},
		{row{"router/ops", "router/session", "codec"}, 1},
		{row{"router/session/x", "gnet", ""}, 1},
		{row{"router/beanstalkd", "router/gearmand codec", ""}, 1},
		{row{"cmd/polystalkd/e2e/x", "", "router/session"}, 1},
		{row{"loadtest/x", "codec", ""}, 0},
		{row{"loadtest/x", "codec router", "shard"}, 2},
		{row{"cmd/x", "router unknown", ""}, 1},
	} {
		if got := lawFaults(append(others, tt.row), laws); len(got) != tt.want {
			t.Errorf("%v: found %q, want %d", tt.row, got, tt.want)
		}
	}
}

func TestLibraryFaultsAreFound(t *testing.T) {
	for want, r := range []row{
		{"router", "codec shard", "codec/conversation"},
		{"router", "codec/conversation", ""},
	} {
		if got := libraryFaults([]row{r, {"codec/conversation/x", "codec/conversation", ""}}, testLibraries); len(got) != want {
			t.Errorf("%v: found %q, want %d", r, got, want)
		}
	}
}

func TestGnetFaultsAreFound(t *testing.T) {
	for name, want := range map[string]int{
		"router/session.go": 1, "router/reactor/accept.go": 0, "router/reactorlike/a.go": 1, "loadtest/a.go": 1,
	} {
		s := mustParse(t, name, `package a; import _ "github.com/panjf2000/gnet/v2/pkg/logging"`)
		if got := folderFaults([]*source{s}, "gnet", []string{"router/reactor/"}); len(got) != want {
			t.Errorf("%s: found %q, want %d", name, got, want)
		}
	}
}
