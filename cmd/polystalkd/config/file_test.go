package config

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"polystalk/cmd/polystalkd/fault"
	wire "polystalk/codec/admin"
	"polystalk/codec/tomlfile"
)

// A commandLine is one of the program's two command lines.
type commandLine struct {
	name  string
	parse func(args []string, env map[string]string) (*Config, error)
	flags func() *keyTable
}

var commandLines = []commandLine{
	{"polystalkd", parse, func() *keyTable { c, _ := parse(nil, nil); return c.keys }},
	{"gearmand", parseGearmand, func() *keyTable { c, _ := parseGearmand(nil, nil); return c.keys }},
}

// parseGearmand is parse in place of gearmand. Gearmand's own file is empty unless args name one.
func parseGearmand(args []string, env map[string]string) (*Config, error) {
	if !slices.Contains(args, "--config-file") {
		args = append(slices.Clone(args), "--config-file", os.DevNull)
	}
	return ParseGearmand(args, func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}, "help")
}

// confFile writes a file of a configuration, and returns its path.
func confFile(t *testing.T, text string, more ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "p.toml")
	files := append([]string{path, text}, more...)
	for i := 0; i < len(files); i += 2 {
		name := files[i]
		if i > 0 {
			name = filepath.Join(path+".d", name)
			must(t, os.MkdirAll(path+".d", 0o700))
		}
		must(t, os.WriteFile(name, []byte(files[i+1]), 0o600))
	}
	return path
}

// faultsOf reads and validates a configuration, and returns its faults.
func faultsOf(t *testing.T, l *commandLine, env map[string]string, args ...string) fault.Faults {
	t.Helper()
	c, err := l.parse(args, env)
	if err == nil {
		err = c.Validate()
	}
	return fault.All(err)
}

// TestEveryErrorOfFilesIsToldAtOnce: each with file, line, text and remedy.
func TestEveryErrorOfFilesIsToldAtOnce(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		more       []string
		want       []string // place, words of the message, the line; separated by |
	}{
		{"unknown key", "port = 1\nmax_job_sise = 5\n", nil, []string{":2|unknown key \"max_job_sise\"|write max-job-size,|max_job_sise = 5"}},
		{"keys of no meaning", "frobnicate = 1\ncheck-config = \"print\"\nconfig = 'x'\nno-compact = true\nz = 1\n", nil, []string{
			":1|unknown key \"frobnicate\": leave it out, or see polystalkd -h", ":2|for the command line only", ":3|for the command line only", ":4|unknown key", ":5|unknown key"}},
		{"wrong types", "loops = \"4\"\nno-fsync = 1\nlisten = 5\nuser = true\nport = 1.5\nlog-level = [\"info\"]\nshards = 2020-01-01\nlisten.x = 'y'\n", nil, []string{
			":1|loops|a whole number without quotes|loops = \"4\"", ":2|no-fsync|true or false", ":3|listen|[\"a\", \"b\"]", ":4|user|text in quotes", ":5|port|text in quotes", ":6|log-level|text in quotes", ":7|shards|a whole number", ":8|unknown key \"listen.x\""}},
		{"bad values", "fsync-ms = -1\nloops = 1025\nshards = 6\nlog-level = \"loud\"\nlog-format = 'xml'\ngearman-failed = 'x'\ngearman-wakeup = -1\n", nil, []string{
			":1|bad value \"-1\"|as in fsync-ms = 50|fsync-ms = -1", ":4|unknown level|log-level = \"loud\"", ":5|unknown format|log-format", ":2|1025 is out of range", ":3|power of two|shards = 6",
			":6|drop or bury", ":7|negative"}},
		{"two files", "loops = 'x'\n", []string{"b.toml", "\nportt = 1\n", "a.toml", "shards = true"}, []string{
			":1|loops|whole number", ".d/a.toml:1|shards|whole number|shards = true", ".d/b.toml:2|unknown key|write port"}},
		{"no TOML behind others", "loops = 'x'\nport =\n", []string{"b.toml", "shards = 6\n"}, []string{":1|loops|whole number", ":2|write a key", ".d/b.toml:1|power of two"}},
		{"twice", "port = 1\nport = 2\n", nil, []string{":2|port is already set in line 1: leave one"}},
		{"contradiction", "fsync-ms = 5\nno-fsync = true\n", nil, []string{":2|no-fsync contradicts fsync-ms in line 1"}},
		{"an address", "listen = ['127.0.0.1:11300']\nport = 'x'\ngearman-listen = ['y']\n", nil, []string{":1|includes a port|listen = [", ":3|not an address with a port|gearman-listen"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := confFile(t, tt.text, tt.more...)
			got := faultsOf(t, &commandLines[0], nil, "--config", path)
			if len(got) != len(tt.want) {
				t.Fatalf("%d faults, want %d:\n%v", len(got), len(tt.want), got)
			}
			for _, want := range tt.want {
				words := strings.Split(want, "|")
				i := slices.IndexFunc(got, func(f *fault.Fault) bool { return strings.HasPrefix(f.Error(), "file "+path+words[0]+":") })
				if i < 0 {
					t.Errorf("nothing is said of %s: %v", words[0], got)
					continue
				}
				for _, w := range words[1:] {
					if all := got[i].Error() + "\n" + got[i].Excerpt; !strings.Contains(all, w) {
						t.Errorf("%q does not hold %q", all, w)
					}
				}
				if got[i].Excerpt == "" {
					t.Errorf("%v: no excerpt", got[i])
				}
			}
			// Faults have reading order: the files by name, the first one before its directory.
			inOrder := slices.IsSortedFunc(got, func(a, b *fault.Fault) int {
				return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
			})
			if !inOrder || got[0].File == "" || got[0].Line == 0 {
				t.Errorf("in no order: %v", got)
			}
		})
	}
}

// TestFilesAndVariablesAreToldTogether: faults of both, and of unreadable files.
func TestFilesAndVariablesAreToldTogether(t *testing.T) {
	path := confFile(t, "loops = 'x'\n")
	must(t, os.WriteFile(path+".d", nil, 0o600))
	got := faultsOf(t, &commandLines[0], map[string]string{"POLYSTALKD_SHARDS": "x", "POLYSTALKD_CONFIG": path, "POLYSTALKD_MAX_JOB_SIZE": "y"})
	if len(got) == 4 && (got[0].File != "" || got[1].File != "" || got[2].File != path || got[3].File != path+".d") {
		t.Errorf("in no order: %v", got)
	}
	if all := got.Error(); len(got) != 4 || !strings.Contains(all, "POLYSTALKD_SHARDS") || !strings.Contains(all, "POLYSTALKD_MAX_JOB_SIZE") || !strings.Contains(all, path+".d: its files cannot be listed") {
		t.Errorf("%v", got)
	}
	for _, args := range [][]string{{"--config", filepath.Join(t.TempDir(), "none")}, {"--config", ""}, {"--config", t.TempDir()}} {
		if got := faultsOf(t, &commandLines[0], nil, args...); len(got) != 1 || got[0].Code != fault.Usage {
			t.Errorf("%q: %v", args, got)
		}
	}
}

// TestFilesInPlaceOfGearmand: keys are gearmand's flags there.
func TestFilesInPlaceOfGearmand(t *testing.T) {
	path := confFile(t, "port = 4731\njob-retries = 3\nverbose = \"DEBUG\"\nthreads = 4\njournal-no-fsync = true\nlisten = [\"::1\"]\n")
	c := valid(t)(parseGearmand([]string{"--config", path, "-w2"}, map[string]string{"GEARMAND_PORT": "4732"}))
	g := c.Router().Gearman
	if c.Port != "4732" || g.Retries != 3 || g.Wakeup != 2 || c.LogLevel != "debug" || g.Verbose != "DEBUG" || !c.NoFsync || c.Gearman.Addresses[0].Host != "::1" || len(c.Warnings) != 1 {
		t.Errorf("%+v %q", c, c.Warnings)
	}
	got := faultsOf(t, &commandLines[1], nil, "--config", confFile(t, "max-job-size = 1\ngearman-retries = 1\nssl = true\nqueue-type = 'mysql'\nconfig-file = '/x'\n"))
	if all := got.Error(); len(got) != 4 || !strings.Contains(all, "--journal DIR") || !strings.Contains(all, "config-file\" is for the command line") {
		t.Errorf("%v", got)
	}
}

// choices returns two values for a key in pflag's form. The first is not its default.
func choices(f *pflag.Flag) (one, two string) {
	switch f.Name {
	case "log-level":
		return "debug", "error"
	case "log-format":
		return "json", "text"
	case "gearman-failed":
		return "bury", "drop"
	case "gearman-shutdown":
		return "any", "none"
	case "verbose":
		if kindOf(f) == words {
			return "DEBUG", "ERROR"
		}
	case "queue-type":
		return "builtin", "builtin"
	case "file-descriptors":
		return "100", "200"
	case "http-prefix":
		return "/a", "/b"
	case "http-anonymous":
		return "read", "operate"
	case "http-bodies":
		return "preview", "none"
	case "http-peer":
		return "a=https://a.example/", "b=https://b.example/"
	case "http-origin":
		return "https://a.example", "https://b.example"
	case "cluster-timeout", "cluster-wait", "cluster-disk-timeout":
		return "2s", "3s"
	case "gearman-listen", "beanstalk-listen", "http":
		return "127.0.0.1:1", "127.0.0.1:2"
	}
	switch kindOf(f) {
	case numbers:
		return "2", "8"
	case truths:
		return "true", "false"
	case lists:
		return "127.0.0.1", "127.0.0.2"
	}
	return "1", "2"
}

// inFile returns a key with a value as a line of a file.
func inFile(t *testing.T, f *pflag.Flag, text string) string {
	t.Helper()
	var v any = text
	switch kindOf(f) {
	case numbers:
		n, err := strconv.ParseInt(text, 10, 64)
		must(t, err)
		v = n
	case truths:
		v = text == "true"
	}
	line, err := tomlfile.Line(f.Name, v)
	must(t, err)
	return line + "\n"
}

// TestPrecedenceOfEveryKey: a later file precedes an earlier one, the environment precedes files,
// and the command line precedes all, for every flag.
func TestPrecedenceOfEveryKey(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for _, l := range commandLines {
		table := l.flags()
		table.each(func(f *pflag.Flag) {
			if f.Name == "protocol" { // which refuses everything
				return
			}
			one, two := choices(f)
			valueIn := func(c *Config) string { return fmt.Sprint(valueOf(c.keys.all.Lookup(f.Name))) }
			alone, err := l.parse([]string{"--" + f.Name + "=" + one}, nil)
			must(t, err)
			// The sources, the weakest first. Each in turn has the first value, and all weaker ones the second.
			origins := []string{"file p.toml:1", "file p.toml.d/x.toml:1", "variable " + envName(f), "flag " + spelling(f)}
			for strongest, want := range origins {
				if strings.HasPrefix(want, "variable") && l.name == "gearmand" {
					continue
				}
				given := func(source int) string {
					return map[bool]string{true: one, false: two}[source == strongest]
				}
				files, env, args := [2]string{}, map[string]string{}, []string{}
				for source := range strongest + 1 {
					switch source {
					case 0, 1:
						files[source] = inFile(t, f, given(source))
					case 2:
						env[envName(f)] = given(source)
					case 3:
						args = append(args, "--"+f.Name+"="+given(source))
					}
				}
				path := confFile(t, files[0], "x.toml", files[1])
				c, err := l.parse(append(args, "--config", path), env)
				if err != nil || len(c.faults) > 0 {
					t.Errorf("%s %s from %s: %v %v", l.name, f.Name, want, err, c.faults)
					continue
				}
				origin := strings.ReplaceAll(c.Origin(table.ours(f)), filepath.Dir(path)+"/", "")
				if got := valueIn(c); got != valueIn(alone) || origin != want {
					t.Errorf("%s %s: %s from %s, want %s from %s", l.name, f.Name, got, origin, valueIn(alone), want)
				}
			}
		})
	}
}

// TestOppositesGoByThePlace: of -f and -F, the one from the source with precedence counts.
func TestOppositesGoByThePlace(t *testing.T) {
	for _, tt := range []struct {
		file, dir string
		env       map[string]string
		args      string
		want      string
	}{
		{"fsync-ms = 5", "no-fsync = true", nil, "", "0s true"},
		{"no-fsync = true", "fsync-ms = 5", nil, "", "5ms false"},
		{"no-fsync = true\nfsync-ms = 0", "", nil, "", "0s true"},
		{"no-fsync = false\nfsync-ms = 5", "", nil, "", "5ms false"},
		{"no-fsync = true", "", map[string]string{"POLYSTALKD_FSYNC_MS": "7"}, "", "7ms false"},
		{"fsync-ms = 5", "", map[string]string{"POLYSTALKD_NO_FSYNC": "true"}, "", "0s true"},
		{"no-fsync = true", "", map[string]string{"POLYSTALKD_NO_FSYNC": "true"}, "-f 9", "9ms false"},
		{"fsync-ms = 5", "", nil, "-F", "0s true"},
	} {
		c := valid(t)(parse(append(strings.Fields(tt.args), "--config", confFile(t, tt.file, "x.toml", tt.dir)), tt.env))
		if got := fmt.Sprint(c.FsyncEvery, " ", c.NoFsync); got != tt.want {
			t.Errorf("%+v: %s", tt, got)
		}
	}
}

// stripped returns the lines of a printed configuration without comments.
func stripped(text string) (lines []string) {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, " # ")
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

// TestPrintedConfigurationPrintsTheSame: a printed configuration, read again, prints the same.
func TestPrintedConfigurationPrintsTheSame(t *testing.T) {
	print := func(l *commandLine, env map[string]string, args ...string) (string, *Config) {
		t.Helper()
		c := valid(t)(l.parse(args, env))
		var b strings.Builder
		must(t, c.WriteSettings(&b))
		return b.String(), c
	}
	for _, args := range []string{
		"", "-F", "-f 50 -F", "-F -f 50", "-VV -l a -l unix:/b'\"c --shards 4 -z 9999999999 -s1 --connection-memory 1",
		"--gearman-max-body 5 --gearman-max-unread 7 --gearman-prefix x --gearman-exceptions -u someone -b /x",
		"gearmand", "gearmand -L ::1 -L a --backlog 7 -f 100 --verbose ALERT --keepalive-idle 7 -d -R -t 4 --beanstalk-listen unix:/x -P /y --journal z --journal-fsync-ms 9",
	} {
		l, list := &commandLines[0], strings.Fields(args)
		if len(list) > 0 && list[0] == "gearmand" {
			l, list = &commandLines[1], list[1:]
		}
		first, c := print(l, map[string]string{"POLYSTALKD_LOG_FORMAT": "json"}, list...)
		second, again := print(l, nil, "--config", confFile(t, first))
		if got, want := stripped(second), stripped(first); !slices.Equal(got, want) {
			t.Errorf("%s: printed\n%s\nread back it is\n%s", args, first, second)
		}
		if a, b := fmt.Sprintf("%+v", c.Router()), fmt.Sprintf("%+v", again.Router()); a != b {
			t.Errorf("%s: the server is\n%s, read back\n%s", args, a, b)
		}
		if _, did := Changes(c.Settings(), again); len(did.Applied)+len(did.Restart) > 0 {
			t.Errorf("%s: read back it has changed: %v", args, did)
		}
	}
	text, _ := print(&commandLines[0], map[string]string{"POLYSTALKD_SHARDS": "8"}, "--config", confFile(t, "\nlog-format = 'json'"), "-p0")
	for _, want := range []string{"port = \"0\" ", "# flag -p\n", "shards = 8 ", "# variable POLYSTALKD_SHARDS\n", "p.toml:2\n", "listen = [\"0.0.0.0\"] ", "# default\n", "# user is not set\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

// judged returns the settings that apply to operators' requests.
func judged(c *Config) []any {
	h := &c.HTTP
	return []any{h.Hosts, h.Origins, h.ProxyNetworks, h.Prefix, h.Bodies, h.HistoryTubes, h.MetricsTubes, h.MetricsMatch}
}

// TestOriginsAreThoseOfTheFileAsItIs: an unchanged value gets its new line as its origin. A setting
// that waits for a restart keeps the origin of the value in effect.
func TestOriginsAreThoseOfTheFileAsItIs(t *testing.T) {
	read := func(text string) *Config {
		return valid(t)(parse([]string{"-l", "::1", "--config", confFile(t, text)}, nil))
	}
	now, _ := Changes(read("max-job-size = 10\nshards = 4\n").Settings(), read("\n\nmax-job-size = 10\nshards = 8\n"))
	want := map[string]string{"max-job-size": ":3", "shards": ":2", "listen": "flag -l"}
	for _, s := range now {
		if !strings.HasSuffix(s.Origin, want[s.Name]) {
			t.Errorf("%s is said to be from %q, want %q", s.Name, s.Origin, want[s.Name])
		}
	}
}

// TestLiveKeysAreThoseOfRouterSettings: a live key changes the settings that the router can apply
// at run time, the rules of operators' requests, or the log.
func TestLiveKeysAreThoseOfRouterSettings(t *testing.T) {
	log := []string{"log-level", "verbose", "log-format"}
	for _, l := range commandLines {
		build := func(args ...string) *Config { return valid(t)(l.parse(args, nil)) }
		base := build()
		rc := base.Router()
		was := rc.Settings()
		was.Gearman.Prefix, was.Gearman.Version = "", ""
		for _, s := range base.Settings() {
			if strings.HasPrefix(s.Name, "cluster-") { // none without others
				if s.Live {
					t.Errorf("%s %s: what the server is among others cannot change while it runs", l.name, s.Name)
				}
				continue
			}
			f := base.keys.all.Lookup(s.Name)
			one, two := choices(f)
			switch s.Name {
			case "user", "queue-type": // not looked up here; only one is taken
				continue
			case "http-tls-cert", "http-tls-key", "tls-cert", "tls-key", "tls-listen", "gearman-tls-listen", "tls-client-ca", "tls-client-crl", "tls-clients",
				"ssl", "ssl-certificate", "ssl-key", "ssl-ca-file": // none without others
				continue
			case "connection-memory":
				one = "1234567890"
			}
			changed := build("--" + s.Name + "=" + one)
			if _, did := Changes(base.Settings(), changed); len(did.Applied)+len(did.Restart) == 0 {
				changed = build("--" + s.Name + "=" + two) // the other is the default
			}
			_, did := Changes(base.Settings(), changed)
			has := func(list []wire.Change) bool {
				return slices.ContainsFunc(list, func(ch wire.Change) bool { return ch.Name == s.Name })
			}
			rc := changed.Router()
			now := rc.Settings()
			now.Gearman.Prefix, now.Gearman.Version = "", ""
			reaches := !reflect.DeepEqual(was, now) || !reflect.DeepEqual(judged(base), judged(changed))
			inLog := slices.Contains(log, base.keys.ours(f))
			if s.Live != (reaches || inLog) {
				t.Errorf("%s %s: live is %v, it reaches the server's settings: %v", l.name, s.Name, s.Live, reaches)
			}
			if has(did.Applied) != s.Live || has(did.Restart) == s.Live {
				t.Errorf("%s %s: live is %v: %v", l.name, s.Name, s.Live, did)
			}
		}
	}
}

func TestNearest(t *testing.T) {
	names := parseNames()
	for word, want := range map[string]string{
		"prot": "port", "Max_Job_Size": "max-job-size", "max-conections": "max-connections", "loop": "loops", "gearmanlisten": "gearman-listen",
		"x": "", "": "", "abcport": "", "workers": "", "listening-addresses": "", strings.Repeat("port", 100): "",
	} {
		if got := tomlfile.Nearest(word, names); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}

func parseNames() []string {
	c, _ := parse(nil, nil)
	return c.keys.names()
}
