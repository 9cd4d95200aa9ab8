package config

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/pflag"
)

// An Option describes a flag for manuals and for the example of a file.
type Option struct {
	Name, Short string // without dashes; Short may be empty
	Value       string // placeholder of its value, in brackets if optional; empty: no value
	Text        string // its description, in one line
	Variable    string // environment variable; empty: none
	Line        string // its line in a file; empty: the flag is not a key
	Live        bool   // a reload changes it without a restart
}

// Options returns the flags of polystalkd's own command line, in the order of its help. Line has
// the default or, if there is none, an example.
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

// GearmandOptions returns the flags of the command line in place of gearmand: gearmand's
// flags with an effect, polystalkd's flags, and gearmand's flags without an effect.
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

// examples has values for keys without a default and without an example in the usage text.
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

// exampleOf returns an example of a key's value; nil: none.
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
