package e2e

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"polystalk/cmd/polystalk/cli"
	"polystalk/cmd/polystalkd/e2e/daemon"
)

var rewrite = flag.Bool("rewrite", false, "write what the commands say into testdata; read the difference then")

// TestGolden runs the commands of testdata/*.txt, which follow a dollar and variables. Below each is its output,
// its standard error after "! ", and its exit code if it is not 0. T stands for text that differs
// between runs. For the commands that follow, the words of fake are after an equals sign, and the
// streams that are terminals after a percent sign: in, out and err.
func TestGolden(t *testing.T) {
	golden(t, map[string]func(*testing.T) *program{
		"polystalkd": func(t *testing.T) *program {
			p, _ := polystalkd(t)
			p.env = map[string]string{"TERM": "dumb"} // a terminal that cannot move its cursor
			return p
		},
		"wire": func(t *testing.T) *program {
			_, s := polystalkd(t)
			return &program{t: t, server: "beanstalk://" + s.Listen[0]}
		},
		"operate": asAdmin,
		"check":   asAdmin,
	})
}

func TestGoldenWithBeanstalkd(t *testing.T) {
	golden(t, map[string]func(*testing.T) *program{"beanstalkd": beanstalkd, "operate-beanstalkd": beanstalkd, "check-beanstalkd": beanstalkd})
}

func TestGoldenWithBadServers(t *testing.T) {
	golden(t, map[string]func(*testing.T) *program{"servers": func(t *testing.T) *program { return &program{t: t} }})
}

// golden runs the commands of files of testdata, by their names, each with its server.
func golden(t *testing.T, files map[string]func(*testing.T) *program) {
	for name, server := range files {
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
					env := p.env
					p.env = make(map[string]string)
					maps.Copy(p.env, env)
					for len(args) > 0 && strings.Contains(args[0], "=") {
						name, value, _ := strings.Cut(args[0], "=")
						p.env[name], args = value, args[1:]
					}
					if name == "wire" {
						alone(t, strings.TrimPrefix(p.server, "beanstalk://"))
					}
					o := p.polystalk(args...)
					p.env = env
					if strings.HasPrefix(line, "$ check") {
						readable(t, o)
					}
					got.WriteString(steady(p, o))
				case strings.HasPrefix(line, "= "):
					fmt.Fprintln(&got, line)
					p.server = fake(t, words(t, line[2:])...)
				case strings.HasPrefix(line, "%"):
					fmt.Fprintln(&got, line)
					has := func(name string) bool { return slices.Contains(strings.Fields(line), name) }
					p.screens = cli.Screens{In: has("in"), Out: has("out"), Err: has("err")}
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
	if parts == nil || o.stderr != "" || map[string]int{"OK": 0, "WARNING": 1, "CRITICAL": 2, "UNKNOWN": 3}[parts[1]] != o.code || parts[3] == "" && o.code < 2 || parts[3] != "" && o.code == 3 {
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
// alone returns when polystalkd has noticed that the connections of earlier commands are closed: its
// statistics would count them.
func alone(t *testing.T, address string) {
	t.Helper()
	for range 1000 {
		c := daemon.Dial(t, address)
		fmt.Fprint(c, "stats\r\n")
		must(t, c.(*net.TCPConn).CloseWrite())
		text, err := io.ReadAll(c)
		must(t, err)
		c.Close()
		if strings.Contains(string(text), "\ncurrent-connections: 1\n") {
			return
		}
	}
	t.Fatal("the connections of earlier commands stay open")
}

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

// fake returns the name of a server: the only word, or a scheme with the address of a server that
// sends a text and closes the connection, or with the word hangs leaves it open. With the word nobody there is no server.
// An answer of HTTP is its status, its type and its content. Requests get several answers in turn.
func fake(t *testing.T, words ...string) string {
	t.Helper()
	if len(words) == 1 {
		return words[0]
	}
	scheme, texts := words[0]+"://", words[1:]
	hangs := texts[0] == "hangs"
	switch {
	case texts[0] == "nobody":
		return scheme + daemon.FreeAddress(t)
	case hangs:
		texts = texts[1:]
	case len(texts)%3 == 0:
		var answers []string
		for a := range slices.Chunk(texts, 3) {
			status, err := strconv.Atoi(a[0])
			must(t, err)
			answers = append(answers, fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: %s\r\n\r\n%s", status, http.StatusText(status), a[1], a[2]))
		}
		texts = answers
	}
	var asked atomic.Int64
	return scheme + serving(t, func(conn net.Conn) {
		_, _ = conn.Read(make([]byte, 4096))
		_, _ = io.WriteString(conn, texts[int(asked.Add(1)-1)%len(texts)])
		if hangs {
			_, _ = io.Copy(io.Discard, conn)
		}
	})
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
	{`\r[^\n]*\r`, ""}, // progress
	{`\(request [0-9a-f]+\)`, "(request T)"},
	{`(?m)^(version +|limit +|hostname +|pid +|go +|loops +|shards +|memory mapped +)\S+( [kMG]?B)?`, "${1}T"},
	{`(?m)^(polystalk top .*version )\S+|^(connections \d+ of )\d+`, "${1}${2}T"},
	{`(?m)^(connections +)[12]\b`, "${1}1"}, // the connection of the command before may still be open
	{`( *)\b\d+\.\d\b`, " R"},               // rates
	{` *\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`, " TIME"},
	{`127R\.0\.1:\d+|127 R R(:\d+)?|127\.0\.0\.1:\d+`, "PEER"},
	{`(?m)^((token +| *"token": "))[A-Z0-9]{26}`, "${1}T"},
	{`sha256:[0-9a-f]{64}`, "sha256:T"},
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
		text += "! " + strings.TrimSuffix(line, "\n") + "\n"
	}
	if o.code != 0 {
		text += fmt.Sprintf("[%d]\n", o.code)
	}
	text = strings.ReplaceAll(text, p.server, "SERVER")
	if _, address, ok := strings.Cut(p.server, "://"); ok {
		text = strings.ReplaceAll(text, address, "ADDRESS")
	}
	for _, c := range changing {
		text = regexp.MustCompile(c.find).ReplaceAllString(text, c.put)
	}
	return strings.NewReplacer("\x00", `\x00`, "\x1b", `\x1b`, "\xff", `\xff`).Replace(text)
}
