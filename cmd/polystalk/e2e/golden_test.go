package e2e

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"polystalk/cmd/polystalk/cli"
)

var rewrite = flag.Bool("rewrite", false, "write what the commands say into testdata; read the difference then")

// TestGolden runs the commands of testdata/*.txt, which follow a dollar. Below each is its output,
// its standard error after "! ", and its exit code if it is not 0. T stands for text that differs
// between runs.
func TestGolden(t *testing.T) {
	for name, server := range map[string]func(*testing.T) *program{
		"polystalkd": func(t *testing.T) *program { p, _ := polystalkd(t); return p },
		"wire": func(t *testing.T) *program {
			_, s := polystalkd(t)
			return &program{t: t, server: "beanstalk://" + s.Listen[0]}
		},
		"beanstalkd":         beanstalkd,
		"operate":            asAdmin,
		"operate-beanstalkd": beanstalkd,
		"check":              asAdmin,
		"check-beanstalkd":   beanstalkd,
	} {
		t.Run(name, func(t *testing.T) {
			p := server(t)
			file := "testdata/" + name + ".txt"
			text, err := os.ReadFile(file)
			must(t, err)
			var got strings.Builder
			for line := range strings.Lines(string(text)) {
				line = strings.TrimSuffix(line, "\n")
				switch {
				case strings.HasPrefix(line, "$ "):
					args := words(t, line[2:])
					if i := len(args) - 2; i >= 0 && args[i] == "<" {
						p.in = args[i+1]
						args = args[:i]
					}
					fmt.Fprintln(&got, line)
					o := p.polystalk(args...)
					if strings.HasPrefix(line, "$ check") {
						readable(t, o)
					}
					got.WriteString(steady(p, o))
				case strings.HasPrefix(line, "#") || line == "":
					fmt.Fprintln(&got, line)
				}
			}
			if *rewrite {
				must(t, os.WriteFile(file, []byte(got.String()), 0o644))
				return
			}
			want := strings.Split(string(text), "\n")
			for i, line := range strings.Split(got.String(), "\n") {
				if i >= len(want) || line != want[i] {
					t.Fatalf("%s:%d: got %q; all of it:\n%s", file, i+1, line, &got)
				}
			}
		})
	}
}

// The format of a plugin's line for monitoring systems. Source: Monitoring Plugins Development
// Guidelines, "Plugin Output for Nagios", "Performance data" and "Threshold and Ranges".
var (
	pluginLine = regexp.MustCompile(`^POLYSTALK (OK|WARNING|CRITICAL|UNKNOWN) - ([^|\n\x1b]+)(?: \| ([^|\n]+))?\n$`)
	dataRange  = `(?:@?(?:(?:~|-?[0-9.]+):)?(?:-?[0-9.]+)?)?`
	dataItem   = regexp.MustCompile(`^(?:[^'= ]+|'(?:[^'=]|'')+')=-?[0-9.]+(?:s|us|ms|%|B|KB|MB|TB|c)?;` + dataRange + `;` + dataRange + `;(?:-?[0-9.]+)?;(?:-?[0-9.]+)?$`)
)

// readable checks a plugin's line, and the exit code of its level.
func readable(t *testing.T, o outcome) {
	t.Helper()
	parts := pluginLine.FindStringSubmatch(o.stdout)
	if parts == nil || o.stderr != "" || map[string]int{"OK": 0, "WARNING": 1, "CRITICAL": 2, "UNKNOWN": 3}[parts[1]] != o.code || (parts[3] == "") != (parts[1] == "UNKNOWN") {
		t.Fatalf("no line of a plugin: %+v", o)
	}
	for item := range strings.FieldsSeq(parts[3]) {
		if !dataItem.MatchString(item) {
			t.Errorf("%q is no performance data", item)
		}
	}
}

// TestGoldenHasEveryCommand by HTTP and by beanstalkd's protocol, even if the latter does not
// support it.
func TestGoldenHasEveryCommand(t *testing.T) {
	local := []string{"help", "completion", "journal", "version", "token"} // these ask no server
	for _, files := range [][]string{{"polystalkd", "operate"}, {"beanstalkd", "operate-beanstalkd"}} {
		var all strings.Builder
		for _, name := range files {
			text, err := os.ReadFile("testdata/" + name + ".txt")
			must(t, err)
			all.WriteString(string(text))
		}
		for _, c := range new(cli.App).Tree().Commands() {
			if !slices.Contains(local, c.Name()) && !strings.Contains(all.String(), "\n$ "+c.Name()+"\n") && !strings.Contains(all.String(), "\n$ "+c.Name()+" ") {
				t.Errorf("neither of %q has polystalk %s", files, c.Name())
			}
		}
	}
}

// words splits a line at spaces, except in Go's quotes.
func words(t *testing.T, line string) (all []string) {
	t.Helper()
	for rest := line; rest != ""; rest = strings.TrimPrefix(rest, " ") {
		if rest[0] == '"' {
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			word, _ := strconv.Unquote(quoted)
			all, rest = append(all, word), rest[len(quoted):]
			continue
		}
		word, after, _ := strings.Cut(rest, " ")
		if rest = ""; after != "" {
			rest = " " + after
		}
		all = append(all, word)
	}
	return all
}

// changing matches text that differs between runs, with the spaces before it.
var changing = []struct{ find, put string }{
	{`( *)\b\d+(\.\d+)?(ms|s)\b`, " T"},
	{`( *)\b\d+[mhd]\d\d[smh]\b`, " T"},
	{`("[a-z_0-9]*(seconds|version|hostname|pid)": ?)("[^"]*"|[0-9.e-]+)`, "${1}T"},
	{`("(as_of|began|ended|started|opened|time)": ?)"[^"]*"`, "${1}T"},
	{`(?m)^(POLYSTALK [A-Z]+ - server: ).*( \| ).*`, "${1}F${2}D"}, // up to a second old
	{`\(request [0-9a-f]+\)`, "(request T)"},
	{`(?m)^(version +|limit +|hostname +|pid +|go +|loops +|shards +|memory mapped +)\S+( [kMG]?B)?`, "${1}T"},
	{`(?m)^(polystalk top .*version )\S+|^(connections \d+ of )\d+`, "${1}${2}T"},
	{`(?m)^(connections +)[12]\b`, "${1}1"}, // the connection of the command before may still be open
	{`( *)\b\d+\.\d\b`, " R"},               // rates
	{` *\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`, " TIME"},
	{`127R\.0\.1:\d+|127 R R(:\d+)?|127\.0\.0\.1:\d+`, "PEER"},
	{`(?m)^(token +|line +\S+ \S+ sha256:)\S+`, "${1}T"},
	{`(?m) +$`, ""},
	{`(\S) {2,}`, "${1}  "}, // widths depend on the content
}

// steady returns an outcome without text that differs between runs.
func steady(p *program, o outcome) string {
	text := strings.ReplaceAll(o.stdout, "\r", `\r`)
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\\\n"
	}
	for line := range strings.Lines(o.stderr) {
		text += "! " + line
	}
	if o.code != 0 {
		text += fmt.Sprintf("[%d]\n", o.code)
	}
	text = strings.ReplaceAll(text, p.server, "SERVER")
	for _, c := range changing {
		text = regexp.MustCompile(c.find).ReplaceAllString(text, c.put)
	}
	return strings.NewReplacer("\x00", `\x00`, "\x1b", `\x1b`, "\xff", `\xff`).Replace(text)
}
