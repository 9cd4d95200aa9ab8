package config

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"polystalk/cmd/polystalkd/config/tomlfile"
	"polystalk/cmd/polystalkd/fault"
)

var rewrite = flag.Bool("rewrite", false, "write the example of a configuration file anew")

// exampleFile has every key, commented out.
const exampleFile = "../polystalkd.toml"

// examples are values for keys that have none by default, where the text of the flag has
// no example of its own.
var examples = map[string]any{
	"listen":             []string{"127.0.0.1", "unix:/run/polystalkd/polystalkd.sock"},
	"user":               "polystalk",
	"binlog-dir":         "/var/lib/polystalkd",
	"gearman-prefix":     "H:jobs.example.com",
	"gearman-max-unread": int64(134217728),
	"pprof":              "127.0.0.1:6060",

	"http-tokens-file":   "/etc/polystalkd/tokens",
	"http-anonymous":     "read",
	"http-host":          []string{"ops.example.com"},
	"http-trusted-proxy": []string{"10.0.0.5"},
	"http-metrics-match": []string{"mail-*"},
	"http-tls-cert":      "/etc/polystalkd/tls.crt",
	"http-tls-key":       "/etc/polystalkd/tls.key",
}

// asIn finds the example in the text of a flag.
var asIn = regexp.MustCompile(`as in (\S*[^\s,;:)])`)

const exampleHead = `# polystalkd --config /etc/polystalkd/polystalkd.toml
#
# Every key is a flag of polystalkd, without the dashes. What is commented out here is what
# holds without it, or an example where that is nothing. Files of the directory
# polystalkd.toml.d whose names end in .toml are read after this one, by their names, and
# replace what stands here; variables of the environment replace that, and flags all.
# polystalkd --check-config=print --config FILE shows what comes of it.
#
# SIGHUP reads all of it again. Some keys hold at once then, the others after a restart.
`

// exampleText is what the example file is to hold.
func exampleText(t *testing.T) string {
	t.Helper()
	c, err := parse(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString(exampleHead)
	c.keys.each(func(f *pflag.Flag) {
		_, usage := pflag.UnquoteUsage(f)
		usage = strings.Join(strings.Fields(usage), " ")
		when := "after a restart"
		if live[c.keys.ours(f)] {
			when = "at once"
		}
		v := valueOf(f)
		if v == nil {
			v = examples[f.Name]
		}
		if m := asIn.FindStringSubmatch(usage); v == nil && m != nil {
			v = m[1]
			if kindOf(f) == lists {
				v = []string{m[1]}
			}
		}
		if v == nil {
			t.Errorf("%s has no value by default: give the list of examples one, or its text \"as in …\"", f.Name)
			return
		}
		line, err := tomlfile.Line(f.Name, v)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "\n%s#%s\n", wrapped(strings.TrimSpace(usage)+". Holds "+when+"."), line)
	})
	return b.String()
}

// wrapped is a text as comment, in lines of at most 90 bytes.
func wrapped(text string) string {
	var b strings.Builder
	line := "#"
	for word := range strings.FieldsSeq(text) {
		if len(line)+1+len(word) > 90 {
			b.WriteString(line + "\n")
			line = "#"
		}
		line += " " + word
	}
	return b.String() + line + "\n"
}

// TestExampleHasEveryKey: the example file is what the flags make of it.
func TestExampleHasEveryKey(t *testing.T) {
	want := exampleText(t)
	if *rewrite {
		if err := os.WriteFile(exampleFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not in step with the flags: go test ./cmd/polystalkd/config -run TestExampleHasEveryKey -rewrite", exampleFile)
	}
}

// TestExampleCanBeUsed as it is, where it changes nothing, and with every key in it.
func TestExampleCanBeUsed(t *testing.T) {
	text, err := os.ReadFile(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	build := func(args ...string) *Config {
		t.Helper()
		c, err := parse(args, nil)
		if err == nil {
			err = c.Validate()
		}
		if err != nil {
			t.Fatalf("%q: %v", args, fault.All(err))
		}
		return c
	}
	if applied, restart := Changes(build().Settings(), build("--config", confFile(t, string(text)))); applied != nil || restart != nil {
		t.Errorf("as it is it changes %v %v", applied, restart)
	}
	all := regexp.MustCompile(`(?m)^#([a-z])`).ReplaceAllString(string(text), "$1")
	c := build("--config", confFile(t, all))
	for _, s := range c.Settings() {
		if !strings.HasPrefix(s.Origin, "file ") {
			t.Errorf("%s comes from %s", s.Name, s.Origin)
		}
	}
}
