package config

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/pflag"
)

// An Option is a flag as texts about it show it: manuals, the example of a file.
type Option struct {
	Name, Short string // without dashes; Short may be empty
	Value       string // what stands for its value, in brackets if it may be left out; empty: there is none
	Text        string // what it does, in one line
	Variable    string // of the environment; empty: it has none
	Line        string // its line in a file; empty: it is no key
	Live        bool   // a file that is read again changes it without a restart
}

// Options are those of polystalkd's own command line, in the order of its help. Their lines
// have what holds without them or, where that is nothing, an example.
func Options() ([]Option, error) {
	c := newConfig()
	fs := newFlagSet(c)
	keys := &keyTable{all: fs, ours: func(f *pflag.Flag) string { return f.Name }}
	all := optionsOf(fs)
	for i := range all {
		o := &all[i]
		f := fs.Lookup(o.Name)
		if hasEnv(f) {
			o.Variable = envName(f)
		}
		if !keys.isKey(f) {
			continue
		}
		v := valueOf(f)
		if v == nil {
			v = exampleOf(o, kindOf(f))
		}
		if v == nil {
			return nil, fmt.Errorf("%s has no value by default: give the list of examples one, or its text \"as in …\"", o.Name)
		}
		line, err := tomlLine(o.Name, v)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.Name, err)
		}
		o.Line, o.Live = line, live[o.Name]
	}
	return all, nil
}

// GearmandOptions are those of the command line in place of gearmand: gearmand's that work,
// polystalkd's, and gearmand's that do nothing here.
func GearmandOptions() (theirs, own, unused []Option) {
	g := newGearmandFlags(newConfig())
	return optionsOf(g.theirs), optionsOf(g.own), optionsOf(g.unused)
}

func optionsOf(fs *pflag.FlagSet) (all []Option) {
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		if value != "" && f.NoOptDefVal != "" {
			value = "[" + value + "]"
		}
		all = append(all, Option{Name: f.Name, Short: f.Shorthand, Value: value, Text: strings.Join(strings.Fields(usage), " ")})
	})
	return all
}

// examples are values for keys that have none by default, where the text of the flag has
// no example of its own.
var examples = map[string]any{
	"listen":             []string{"127.0.0.1", "unix:/run/polystalkd/polystalkd.sock"},
	"user":               "polystalkd",
	"binlog-dir":         "/var/lib/polystalkd",
	"gearman-prefix":     "H:jobs.example.com",
	"gearman-max-unread": int64(134217728),

	"http-tokens-file":   "/etc/polystalkd/tokens",
	"http-anonymous":     "read",
	"http-host":          []string{"ops.example.com"},
	"http-trusted-proxy": []string{"10.0.0.5"},
	"http-prefix":        "/queue",
	"http-metrics-match": []string{"mail-*"},
	"http-tls-cert":      "/etc/polystalkd/tls.crt",
	"http-tls-key":       "/etc/polystalkd/tls.key",

	"cluster-cert": "/etc/polystalkd/cluster.crt",
	"cluster-key":  "/etc/polystalkd/cluster.key",
	"cluster-ca":   "/etc/polystalkd/cluster-ca.crt",
}

// asIn finds the example in the text of a flag.
var asIn = regexp.MustCompile(`as in (\S*[^\s,;:)])`)

// exampleOf is an example of a key's value; nil: there is none.
func exampleOf(o *Option, k kind) any {
	if v := examples[o.Name]; v != nil {
		return v
	}
	m := asIn.FindStringSubmatch(o.Text)
	switch {
	case m == nil:
		return nil
	case k == lists:
		return []string{m[1]}
	}
	return m[1]
}
