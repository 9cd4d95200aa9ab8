package cmd

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// A row says what a package may import: packages of the module, by their
// folder, and libraries, by their name in the list below. What only its tests
// import stands apart. The standard library is everybody's.
//
// A new package needs a row, and what it imports later is added to it; what it
// no longer imports is taken out. The test prints the row that it wants.
type row struct{ folder, imports, tests string }

var table = []row{
	// Bytes to values and back.
	{"codec", "", ""},
	{"codec/admin", "go-json", ""},
	{"codec/beanstalk", "", ""},
	{"codec/binlog", "codec/beanstalk x/sys", "codec/wiretest"},
	{"codec/gearman", "codec/beanstalk", ""},
	{"codec/gearmantest", "codec/wiretest", ""},
	{"codec/openmetrics", "", "expfmt"},
	{"codec/wiretest", "", ""},
	{"codec/wiretest/relay", "", ""},

	// The state of a part of the tubes, its owner, and how it outlives the process.
	{"shard", "shard/commit shard/core shard/ring", ""},
	{"shard/commit", "shard/histogram shard/record", ""},
	{"shard/core", "bytebufferpool shard/flow shard/listindex shard/record shard/slab shard/store xxhash", ""},
	{"shard/journal", "shard/commit shard/histogram shard/journal/disk shard/journal/index shard/journal/space shard/record", "shard/core shard/journal/fakedisk"},
	{"shard/journal/disk", "x/sys", ""},
	{"shard/journal/exchange", "shard/journal/disk", "shard/journal/fakedisk"},
	{"shard/journal/fakedisk", "shard/journal", ""},
	{"shard/journal/index", "", ""},
	{"shard/journal/space", "shard/commit shard/record", ""},
	{"shard/flow", "", ""},
	{"shard/histogram", "", ""},
	{"shard/listindex", "", ""},
	{"shard/record", "", ""},
	{"shard/ring", "", ""},
	{"shard/slab", "x/sys", ""},
	{"shard/store", "shard/slab", ""},

	// Connections, and which shard a command is for.
	{"router", "codec/beanstalk codec/gearman router/admin router/beanstalkd router/clock router/direct router/gearmand router/memory router/ops router/placement router/reactor router/restore router/session shard shard/commit shard/core shard/journal shard/record x/sys", "codec/admin router/history shard/slab"},
	{"router/access", "", ""},
	{"router/admin", "codec/admin router/direct router/session shard shard/commit shard/core shard/flow shard/histogram shard/slab", ""},
	{"router/beanstalkd", "codec codec/beanstalk codec/gearman router/ops router/placement router/session shard/commit shard/core shard/slab x/sys", ""},
	{"router/clock", "shard shard/core x/sys", ""},
	{"router/cluster/certtest", "", ""},
	{"router/cluster/complaint", "", ""},
	{"router/cluster/forward", "router/cluster/complaint x/sys", "router router/cluster/certtest router/cluster/transport"},
	{"router/cluster/relay", "codec/admin", ""},
	{"router/cluster/transport", "router/access router/cluster/complaint x/sys", "codec/wiretest/relay router/cluster/certtest"},
	{"router/direct", "router/clock router/ops router/placement shard shard/commit shard/core shard/histogram shard/slab", "router/history"},
	{"router/exposition", "client_golang codec/admin codec/openmetrics router/admin router/ranking router/session shard/commit shard/core shard/flow shard/histogram", ""},
	{"router/gearmand", "codec codec/gearman router/ops router/placement router/session shard/commit shard/core shard/listindex shard/slab", "router/clock router/memory shard"},
	{"router/history", "", ""},
	{"router/memory", "bytebufferpool shard/core", ""},
	{"router/ops", "router/placement shard shard/core shard/listindex", ""},
	{"router/placement", "shard shard/core", ""},
	{"router/ranking", "router/admin", "shard/core"},
	{"router/reactor", "gnet router/memory router/session x/sys", "router/clock router/ops router/placement shard shard/core shard/journal"},
	{"router/restore", "codec/binlog router/clock router/placement router/restore/migrate shard shard/commit shard/core shard/journal shard/journal/exchange shard/record", ""},
	{"router/restore/migrate", "codec/binlog shard/core shard/record", ""},
	{"router/session", "router/clock router/memory router/ops router/placement shard shard/commit shard/core shard/slab", ""},
	{"router/console", "xxhash", ""},
	{"router/web", "codec/admin router/access", ""},
	{"router/api", "client_golang codec/admin codec/openmetrics router/access router/admin router/console router/exposition router/ranking router/trend router/watch router/web shard/core shard/flow", "expfmt kin-openapi router router/cluster/relay shard/commit shard/histogram shard/journal"},
	{"router/trend", "shard/flow", ""},
	{"router/watch", "router/admin router/ranking router/trend shard/core shard/flow", "router/session"},
	{"router/cluster/directory", "codec/binlog router/cluster router/cluster/snapshot router/cluster/transport shard/journal shard/journal/exchange", "shard/journal/fakedisk shard/record"},
	{"router/cluster", "protobuf raft shard/commit shard/histogram shard/journal shard/record", "shard/journal/fakedisk"},
	{"router/cluster/join", "router/cluster router/cluster/snapshot router/cluster/transport shard/journal shard/journal/exchange", "shard/journal/fakedisk shard/record"},
	{"router/cluster/snapshot", "shard/journal shard/journal/exchange", "shard/commit shard/core shard/journal/fakedisk shard/record"},
	{"router/sim", "router router/admin router/direct router/session shard shard/core", "codec/admin codec/gearman codec/wiretest router/cluster router/cluster/join router/cluster/snapshot router/history shard/commit shard/journal shard/journal/fakedisk shard/record"},

	// The programs.
	{"cmd", "", ""},
	{"cmd/internal/release", "", ""},
	{"cmd/internal/terminal", "", ""},
	{"cmd/manual", "cmd/internal/release cmd/polystalk/command cmd/polystalk/fault cmd/polystalk/journal cmd/polystalk/target cmd/polystalkd/config cobra pflag", ""},
	{"cmd/polystalk", "cmd/polystalk/command x/term", ""},
	{"cmd/polystalk/api", "cmd/internal/release cmd/polystalk/fault cmd/polystalk/queue cmd/polystalk/target codec/admin", ""},
	{"cmd/polystalk/bookmark", "", ""},
	{"cmd/polystalk/cluster", "cmd/polystalk/api cmd/polystalk/fault cmd/polystalk/output cmd/polystalk/views cobra codec/admin router/cluster/directory", ""},
	{"cmd/polystalk/command", "cmd/internal/release cmd/internal/terminal cmd/polystalk/api cmd/polystalk/bookmark cmd/polystalk/cluster cmd/polystalk/fault cmd/polystalk/journal cmd/polystalk/nagios cmd/polystalk/output cmd/polystalk/queue cmd/polystalk/target cmd/polystalk/top cmd/polystalk/views cmd/polystalk/wire cobra codec/admin pflag", ""},
	{"cmd/polystalk/e2e/ask", "", "cmd/internal/release cmd/polystalk/bookmark cmd/polystalk/command cmd/polystalk/fault cmd/polystalk/output cmd/polystalkd/e2e/daemon cobra codec/admin codec/gearman codec/wiretest pflag x/sys"},
	{"cmd/polystalk/fault", "", ""},
	{"cmd/polystalk/journal", "cmd/polystalk/fault codec/binlog codec/gearman pflag router/restore/migrate shard/core shard/journal shard/record", "cmd/polystalkd/e2e/daemon codec/wiretest"},
	{"cmd/polystalk/nagios", "cmd/polystalk/fault", ""},
	{"cmd/polystalk/output", "cmd/internal/terminal cmd/polystalk/fault gojq x/ansi", ""},
	{"cmd/polystalk/queue", "cmd/polystalk/fault", ""},
	{"cmd/polystalk/target", "cmd/polystalk/fault", ""},
	{"cmd/polystalk/top", "bubbletea cmd/internal/terminal cmd/polystalk/fault cmd/polystalk/output cmd/polystalk/queue cmd/polystalk/views codec/admin x/ansi", ""},
	{"cmd/polystalk/views", "cmd/polystalk/output", ""},
	{"cmd/polystalk/wire", "cmd/polystalk/fault cmd/polystalk/queue cmd/polystalk/target codec/admin codec/beanstalk codec/gearman go-beanstalk", ""},
	{"cmd/polystalkd", "cmd/internal/release cmd/internal/terminal cmd/polystalkd/account cmd/polystalkd/again cmd/polystalkd/config cmd/polystalkd/fault cmd/polystalkd/listen cmd/polystalkd/logging cmd/polystalkd/member cmd/polystalkd/ownfile cmd/polystalkd/probe codec/admin codec/binlog go-systemd router router/access router/api router/console router/web shard/commit shard/journal x/sys", ""},
	{"cmd/polystalkd/account", "cmd/polystalkd/config cmd/polystalkd/fault", ""},
	{"cmd/polystalkd/again", "cmd/polystalkd/listen", "cmd/polystalkd/config"},
	{"cmd/polystalkd/config", "cmd/internal/release cmd/polystalkd/config/tomlfile cmd/polystalkd/fault codec/beanstalk codec/gearman pflag router router/access router/cluster/transport", ""},
	{"cmd/polystalkd/config/tomlfile", "go-toml", ""},
	{"cmd/polystalkd/e2e/cluster", "", "cmd/polystalkd/e2e/daemon cmd/polystalkd/fault codec/admin x/sys"},
	{"cmd/polystalkd/e2e/config", "", "cmd/polystalkd/e2e/daemon cmd/polystalkd/fault codec/gearman"},
	{"cmd/polystalkd/e2e/console", "", "cdproto chromedp cmd/polystalkd/e2e/daemon codec/wiretest"},
	{"cmd/polystalkd/e2e/daemon", "codec/admin codec/gearman codec/wiretest", ""},
	{"cmd/polystalkd/e2e/gearman", "", "cmd/internal/release cmd/polystalkd/e2e/daemon cmd/polystalkd/e2e/operator codec/gearman codec/gearmantest codec/wiretest go-beanstalk"},
	{"cmd/polystalkd/e2e/gearmand", "", "cmd/internal/release cmd/polystalkd/e2e/daemon cmd/polystalkd/fault codec/gearman codec/wiretest x/sys"},
	{"cmd/polystalkd/e2e/keep", "", "cmd/polystalkd/e2e/daemon cmd/polystalkd/fault codec/admin codec/gearman codec/wiretest shard/record x/sys"},
	{"cmd/polystalkd/e2e/operator", "codec/admin codec/wiretest", ""},
	{"cmd/polystalkd/e2e/process", "", "cmd/internal/release cmd/polystalkd/e2e/daemon cmd/polystalkd/fault codec/binlog codec/wiretest"},
	{"cmd/polystalkd/e2e/wire", "", "cmd/polystalkd/e2e/daemon cmd/polystalkd/e2e/operator codec/wiretest go-beanstalk"},
	{"cmd/polystalkd/fault", "", ""},
	{"cmd/polystalkd/listen", "cmd/polystalkd/config cmd/polystalkd/fault go-systemd x/sys", ""},
	{"cmd/polystalkd/logging", "cmd/polystalkd/account cmd/polystalkd/config cmd/polystalkd/fault cmd/polystalkd/ownfile", ""},
	{"cmd/polystalkd/member", "cmd/polystalkd/config cmd/polystalkd/fault cmd/polystalkd/listen codec/admin codec/binlog router router/admin router/cluster router/cluster/forward router/cluster/join router/cluster/relay router/cluster/snapshot router/cluster/transport shard/commit shard/histogram shard/journal", ""},
	{"cmd/polystalkd/ownfile", "x/sys", ""},
	{"cmd/polystalkd/probe", "cmd/polystalkd/config cmd/polystalkd/fault", ""},

	// What makes releases, a module of its own.
	{"cmd/release", "cmd/release/archive cmd/release/bill cmd/release/build cmd/release/content cmd/release/image cmd/release/linux cmd/release/source", "spdx"},
	{"cmd/release/archive", "", ""},
	{"cmd/release/bill", "cmd/release/build cmd/release/content cmd/release/source spdx", ""},
	{"cmd/release/build", "cmd/release/source", ""},
	{"cmd/release/content", "cmd/release/archive cmd/release/build cmd/release/source", ""},
	{"cmd/release/image", "cmd/release/archive cmd/release/build cmd/release/content cmd/release/source go-containerregistry", ""},
	{"cmd/release/linux", "cmd/release/build cmd/release/content nfpm", ""},
	{"cmd/release/source", "", ""},

	// What puts load on servers, also on others than ours.
	{"loadtest", "loadtest/beanstalkd loadtest/compare loadtest/floor loadtest/gearmand loadtest/measure loadtest/proc loadtest/report loadtest/workload", "codec/gearmantest"},
	{"loadtest/beanstalkd", "loadtest/drive loadtest/latency loadtest/workload x/sys", "loadtest/compare loadtest/proc loadtest/workload/workloadtest"},
	{"loadtest/compare", "loadtest/measure loadtest/proc loadtest/workload", "loadtest/beanstalkd loadtest/measure/measuretest"},
	{"loadtest/drive", "loadtest/latency x/sys", ""},
	{"loadtest/faults", "codec/admin loadtest/drive loadtest/faults/client loadtest/faults/history loadtest/faults/nodes loadtest/proc", "codec/wiretest"},
	{"loadtest/faults/client", "codec/gearman loadtest/drive loadtest/faults/history", ""},
	{"loadtest/faults/history", "loadtest/drive", ""},
	{"loadtest/faults/nodes", "codec/admin codec/wiretest/relay loadtest/proc", ""},
	{"loadtest/floor", "gnet", ""},
	{"loadtest/gearmand", "codec/gearman loadtest/drive loadtest/workload", "codec/gearmantest loadtest/compare loadtest/latency loadtest/proc loadtest/workload/workloadtest"},
	{"loadtest/latency", "hdrhistogram", ""},
	{"loadtest/measure", "loadtest/latency loadtest/proc loadtest/workload", ""},
	{"loadtest/measure/measuretest", "loadtest/latency loadtest/measure loadtest/workload", ""},
	{"loadtest/operators", "codec/admin codec/gearman loadtest/proc", "codec/wiretest"},
	{"loadtest/proc", "x/sys", ""},
	{"loadtest/report", "loadtest/compare loadtest/measure loadtest/workload plot", "loadtest/beanstalkd loadtest/measure/measuretest"},
	{"loadtest/workload", "loadtest/drive loadtest/latency loadtest/proc x/sync", ""},
	{"loadtest/workload/workloadtest", "loadtest/workload", ""},
}

// libraries are the only ones that the modules use; go.mod says what for, for what makes
// releases cmd/release/go.mod.
var libraries = map[string]string{
	"bubbletea":            "charm.land/bubbletea/v2",
	"bytebufferpool":       "github.com/valyala/bytebufferpool",
	"cdproto":              "github.com/chromedp/cdproto",
	"chromedp":             "github.com/chromedp/chromedp",
	"client_golang":        "github.com/prometheus/client_golang",
	"cobra":                "github.com/spf13/cobra",
	"expfmt":               "github.com/prometheus/common",
	"gnet":                 "github.com/panjf2000/gnet/v2",
	"go-beanstalk":         "github.com/beanstalkd/go-beanstalk",
	"go-containerregistry": "github.com/google/go-containerregistry",
	"go-systemd":           "github.com/coreos/go-systemd/v22",
	"go-json":              "github.com/go-json-experiment/json",
	"go-toml":              "github.com/pelletier/go-toml/v2",
	"gojq":                 "github.com/itchyny/gojq",
	"hdrhistogram":         "github.com/HdrHistogram/hdrhistogram-go",
	"kin-openapi":          "github.com/getkin/kin-openapi",
	"nfpm":                 "github.com/goreleaser/nfpm/v2",
	"pflag":                "github.com/spf13/pflag",
	"protobuf":             "google.golang.org/protobuf",
	"raft":                 "go.etcd.io/raft/v3",
	"plot":                 "gonum.org/v1/plot",
	"spdx":                 "github.com/spdx/tools-golang",
	"x/ansi":               "github.com/charmbracelet/x/ansi",
	"x/sync":               "golang.org/x/sync",
	"x/sys":                "golang.org/x/sys",
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
	{folder: "shard/core", only: "shard/flow shard/listindex shard/record shard/slab shard/store", why: "the core is deterministic, and what it imports is too"},
	{folder: "shard/commit", only: "shard/histogram shard/record", why: "what stands behind it may be another than the journal"},
	{folder: "shard/journal/index", only: "shard/journal/index", why: "it is numbers, and knows no files"},
	{folder: "shard/journal/space", only: "shard/commit shard/record", why: "it is arithmetic, and knows no files"},
	{folder: "router", only: "router codec shard", tests: true, why: "a server does not know its programs"},
	{folder: "router/placement", never: "codec gnet", why: "where a tube lives has nothing to do with what is spoken"},
	{folder: "router/ops", never: "codec gnet router/session", why: "operations over shards work without a connection"},
	{folder: "router/session", never: "codec gnet router/reactor shard/journal", why: "a session serves any protocol, over any transport"},
	{folder: "router/beanstalkd", never: "router/gearmand gnet", why: "protocols do not know each other"},
	{folder: "router/gearmand", never: "router/beanstalkd gnet", why: "protocols do not know each other"},
	{folder: "router/cluster/forward", only: "router/cluster/complaint", why: "it knows clients as connections, and how to reach the leader is given"},
	{folder: "router/cluster/relay", only: "codec/admin", why: "it carries requests to who leads, whatever they ask for, and how to reach him is given"},
	{folder: "router/cluster/transport", only: "router/access router/cluster/complaint", why: "what goes between nodes are bytes to what carries them"},
	{folder: "router/web", never: "router/admin router/api shard", why: "how requests come in is the same whatever is served"},
	{folder: "router/admin", never: "gnet router/api router/web", why: "what operators do does not depend on how they ask"},
	{folder: "router/trend", only: "shard/flow", why: "a history is given readings, and knows no server"},
	{folder: "router/watch", never: "gnet router/web router/api", why: "what has changed does not depend on who is told"},
	{folder: "router/access", only: "router/access", why: "who may do what has nothing to do with how it is asked, or of whom"},
	{folder: "router/console", only: "router/console", why: "the console is files: what it shows it asks of the API, as anybody does"},
	{folder: "cmd", only: "cmd router codec shard", tests: true, why: "the load generator is a program by itself"},
	{folder: "cmd/release", only: "cmd/release", tests: true, why: "it is a module of its own, and learns what it must know from what it builds"},
	{folder: "cmd/polystalk/command", never: "router shard", why: "what asks servers knows what they answer, and nothing of their insides"},
	{folder: "cmd/polystalkd/e2e", never: "router shard/core cmd/polystalkd/config", tests: true, why: "these tests see the program from outside"},
	{folder: "loadtest", only: "loadtest codec", tests: true, why: "it drives other servers too"},
}

// gnetFiles begin the names of the files that may import gnet: sessions work
// with other transports, and loadtest/floor is the constant server that the
// load generator itself is measured against.
var gnetFiles = []string{"router/reactor/", "loadtest/floor/"}

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

func (r row) String() string { return fmt.Sprintf("{%q, %q, %q},", r.folder, r.imports, r.tests) }

// tableFaults compares what is imported with what may be.
func tableFaults(all []*source, table []row) []string {
	var faults []string
	may := make(map[string]row)
	for _, r := range table {
		if _, twice := may[r.folder]; twice {
			faults = append(faults, r.folder+" has two rows")
		}
		may[r.folder] = r
	}
	for _, is := range rows(all) {
		r, ok := may[is.folder]
		delete(may, is.folder)
		before := len(faults)
		if !ok {
			faults = append(faults, is.folder+" has no row")
		} else {
			imports, tests := strings.Fields(r.imports), strings.Fields(r.tests)
			for name := range strings.FieldsSeq(is.imports) {
				if !slices.Contains(imports, name) {
					faults = append(faults, is.folder+" may not import "+name)
				}
			}
			for name := range strings.FieldsSeq(is.tests) {
				if !slices.Contains(imports, name) && !slices.Contains(tests, name) {
					faults = append(faults, "the tests of "+is.folder+" may not import "+name)
				}
			}
			for _, name := range imports {
				if !slices.Contains(strings.Fields(is.imports), name) {
					faults = append(faults, is.folder+" does not import "+name+", which it may")
				}
			}
			for _, name := range tests {
				if !slices.Contains(strings.Fields(is.tests), name) {
					faults = append(faults, "the tests of "+is.folder+" alone do not import "+name+", which they may")
				}
			}
		}
		if len(faults) > before {
			faults[len(faults)-1] += "\n\tif that is meant, its row is " + is.String()
		}
	}
	for folder := range may {
		faults = append(faults, folder+" has a row and no Go file")
	}
	return faults
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
				faults = append(faults, r.folder+": "+name+" is neither a package with a row nor a library of the list")
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

// gnetFaults lists the files that import gnet and are not among those that may, and
// what of these is gone from its package.
func gnetFaults(all []*source, table []row, may []string) []string {
	var faults []string
	for _, prefix := range may {
		packaged := slices.ContainsFunc(table, func(r row) bool { return r.folder == path.Dir(prefix) })
		if packaged && !slices.ContainsFunc(all, func(s *source) bool { return strings.HasPrefix(s.name, prefix) }) {
			faults = append(faults, prefix+" may import gnet, and is not there")
		}
	}
	for _, s := range all {
		allowed := slices.ContainsFunc(may, func(prefix string) bool { return strings.HasPrefix(s.name, prefix) })
		if !allowed && slices.ContainsFunc(s.imports(), func(imported string) bool { return short(imported) == "gnet" }) {
			faults = append(faults, s.name+" imports gnet: only "+strings.Join(may, ", ")+" may")
		}
	}
	return faults
}

func TestImportsAreInTheTable(t *testing.T) {
	all := readTree(t)
	for _, f := range slices.Concat(tableFaults(all, table), lawFaults(table, laws), gnetFaults(all, table, gnetFiles)) {
		t.Error(f)
	}
	for name := range libraries {
		if !slices.ContainsFunc(table, func(r row) bool {
			return slices.Contains(strings.Fields(r.imports+" "+r.tests), name)
		}) {
			t.Errorf("%s is in the list of libraries, and no row has it", name)
		}
	}
}

func TestTableFaultsAreFound(t *testing.T) {
	table := []row{
		{"codec", "", ""},
		{"shard", "shard/ring x/sys", "xxhash"},
		{"shard/ring", "", "shard"},
	}
	for _, tt := range []struct {
		text string // of shard/a.go
		test string // of shard/a_test.go
		want int
	}{
		{`import (_ "polystalk/shard/ring"; _ "golang.org/x/sys/unix")`, `import _ "github.com/cespare/xxhash/v2"`, 0},
		{`import (_ "polystalk/shard/ring"; _ "golang.org/x/sys/unix"; _ "time")`, `import (_ "github.com/cespare/xxhash/v2"; _ "polystalk/shard/ring")`, 0},
		{`import (_ "polystalk/shard/ring"; _ "golang.org/x/sys/unix")`, `import (_ "github.com/cespare/xxhash/v2"; _ "polystalk/shard")`, 0},
		{`import (_ "polystalk/shard/ring"; _ "golang.org/x/sys/unix"; _ "polystalk/codec")`, `import _ "github.com/cespare/xxhash/v2"`, 1},
		{`import (_ "polystalk/shard/ring"; _ "golang.org/x/sys/unix")`, `import (_ "github.com/cespare/xxhash/v2"; _ "polystalk/codec")`, 1},
		{`import (_ "polystalk/shard/ring"; _ "golang.org/x/sys/unix"; _ "example.org/x")`, `import _ "github.com/cespare/xxhash/v2"`, 1},
		{`import (_ "polystalk/shard/ring"; _ "golang.org/x/sys/unix"; _ "C")`, `import _ "github.com/cespare/xxhash/v2"`, 1},
		{`import (_ "polystalk/shard/ring"; _ "golang.org/x/sys/unix"; _ "polystalk")`, `import _ "github.com/cespare/xxhash/v2"`, 1},
		// What only tests may import, the package may not; and then the tests no longer do so alone.
		{`import (_ "polystalk/shard/ring"; _ "golang.org/x/sys/unix"; _ "github.com/cespare/xxhash/v2")`, ``, 2},
		// What is no longer imported.
		{`import _ "polystalk/shard/ring"`, `import _ "github.com/cespare/xxhash/v2"`, 1},
		{`import (_ "polystalk/shard/ring"; _ "golang.org/x/sys/unix")`, ``, 1},
	} {
		got := tableFaults([]*source{
			mustParse(t, "codec/a.go", "package codec"),
			mustParse(t, "shard/a.go", "package shard; "+tt.text),
			mustParse(t, "shard/a_test.go", "package shard; "+tt.test),
			mustParse(t, "shard/ring/a.go", "package ring"),
			mustParse(t, "shard/ring/a_test.go", `package ring; import _ "polystalk/shard"`),
		}, table)
		if len(got) != tt.want {
			t.Errorf("%s, %s\n\tfound %q, want %d", tt.text, tt.test, got, tt.want)
		}
	}
	if got := tableFaults([]*source{mustParse(t, "new/a.go", "package a")}, nil); len(got) != 1 {
		t.Errorf("a package without a row: found %q, want 1", got)
	}
	if got := tableFaults(nil, table[:1]); len(got) != 1 {
		t.Errorf("a row without a package: found %q, want 1", got)
	}
	if got := tableFaults([]*source{mustParse(t, "codec/a.go", "package codec")}, []row{table[0], table[0]}); len(got) != 1 {
		t.Errorf("a package with two rows: found %q, want 1", got)
	}
}

func TestLawFaultsAreFound(t *testing.T) {
	others := []row{ // what the row under test may name
		{"cmd/polystalkd", "", ""}, {"codec", "", ""}, {"shard", "", ""}, {"shard/record", "", ""}, {"shard/journal", "", ""},
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
		{row{"shard/core", "shard/record xxhash", "shard/journal"}, 0},
		{row{"shard/core", "shard/journal", ""}, 1},
		{row{"router/x", "codec shard router", ""}, 0},
		{row{"router/x", "cmd/polystalkd", ""}, 1},
		{row{"router/ops", "codec", ""}, 1},
		{row{"router/ops", "router/session", "codec"}, 1},
		{row{"router/session/x", "gnet", ""}, 1},
		{row{"router/beanstalkd", "router/gearmand codec", ""}, 1},
		{row{"cmd/polystalkd/e2e/x", "", "router/session"}, 1},
		{row{"loadtest/x", "codec", ""}, 0},
		{row{"loadtest/x", "codec router", "shard"}, 2},
		{row{"cmd/x", "router unheard", ""}, 1},
	} {
		if got := lawFaults(append(others, tt.row), laws); len(got) != tt.want {
			t.Errorf("%v: found %q, want %d", tt.row, got, tt.want)
		}
	}
}

func TestGnetFaultsAreFound(t *testing.T) {
	may := []string{"router/gnet.go", "router/reactor/"}
	for name, want := range map[string]int{
		"router/session.go": 1, "router/gnet.go": 0, "router/reactor/accept.go": 0,
		"router/reactorlike/a.go": 1, "loadtest/a.go": 1,
	} {
		s := mustParse(t, name, `package a; import _ "github.com/panjf2000/gnet/v2/pkg/logging"`)
		if got := gnetFaults([]*source{s}, nil, may); len(got) != want {
			t.Errorf("%s: found %q, want %d", name, got, want)
		}
	}
	if got := gnetFaults(nil, []row{{"router", "", ""}}, may); len(got) != 1 {
		t.Errorf("no router/gnet.go: found %q, want 1", got)
	}
}
