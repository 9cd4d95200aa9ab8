package config

import (
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	wire "polystalk/codec/admin"
	"polystalk/codec/tomlfile"
)

// A Setting is one key with its value in effect.
type Setting struct {
	Name   string
	Value  any    // string, int64, bool or []string; nil: not set and no default
	Origin string // "flag -p", "file /etc/polystalkd.toml:7" and the like, or "default"

	// Live reports that a reload applies a new value. Other settings need a restart.
	Live bool
}

// live has the keys, by our names, that a reload can change in the router, the log or HTTP: see
// router.Settings, package logging, http.Rules, and its API's PrepareMetrics and SetHistory.
var live = map[string]bool{
	"log-level": true, "verbose": true, "log-format": true,
	"max-connections": true, "max-job-size": true, "connection-memory": true,
	"gearman-retries": true, "gearman-wakeup": true, "gearman-exceptions": true, "gearman-failed": true,
	"gearman-shutdown": true, "gearman-max-body": true, "gearman-max-unread": true,
	"http-host": true, "http-origin": true, "http-trusted-proxy": true, "http-prefix": true,
	"http-metrics-tubes": true, "http-metrics-match": true, "http-history-tubes": true, "http-bodies": true,
}

// Settings returns all keys of a valid Config that have an effect, in the order of --help.
func (c *Config) Settings() (all []Setting) {
	t := c.keys
	t.each(func(f *pflag.Flag) {
		if t.unused != nil && t.unused.Lookup(f.Name) != nil || strings.HasSuffix(f.Value.Type(), "func") {
			return
		}
		name := t.ours(f)
		s := Setting{Name: f.Name, Value: valueOf(f), Origin: "default", Live: live[name]}
		if c.IsSet(name) {
			s.Origin = c.origins[name]
		} else if name == "listen" && !c.Gearmand {
			s.Value = []string{everywhere}
		}
		all = append(all, s)
	})
	return all
}

// valueOf returns a flag's value; nil: not set.
func valueOf(f *pflag.Flag) any {
	text := f.Value.String()
	switch kindOf(f) {
	case lists:
		if list := f.Value.(pflag.SliceValue).GetSlice(); len(list) > 0 {
			return list
		}
		return nil
	case numbers:
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
		return nil
	case truths:
		return text == "true"
	}
	if text == "" {
		return nil
	}
	return text
}

// WriteSettings writes the settings in effect as a file for --config, with the origin of each
// key as a comment.
func (c *Config) WriteSettings(w io.Writer) error {
	for _, s := range c.Settings() {
		line := "# " + s.Name + " is not set"
		if s.Value != nil {
			text, err := tomlfile.Line(s.Name, s.Value)
			if err != nil {
				return err
			}
			line = fmt.Sprintf("%-40s # %s", text, printable(s.Origin))
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// printable quotes s if it holds characters that could end a comment.
func printable(s string) string {
	if quoted := strconv.Quote(s); quoted != `"`+s+`"` {
		return quoted
	}
	return s
}

// Text returns the value for the log and the API.
func (s *Setting) Text() string {
	switch v := s.Value.(type) {
	case nil:
		return "not set"
	case []string:
		return strings.Join(v, ", ")
	}
	return fmt.Sprint(s.Value)
}

// Changes compares the settings in effect with a Config that was read again. It returns the
// settings in effect after the reload, the changes that apply at once, and the changes that need
// a restart. Only the last keep their old value and origin in now.
func Changes(running []Setting, next *Config) (now []Setting, did *wire.Reloaded) {
	were := make(map[string]Setting)
	for _, s := range running {
		were[s.Name] = s
	}
	did = &wire.Reloaded{Applied: []wire.Change{}, Restart: []wire.Change{}}
	for _, s := range next.Settings() {
		was := were[s.Name]
		change := wire.Change{Name: s.Name, From: was.Text(), To: s.Text(), Origin: s.Origin}
		switch {
		case reflect.DeepEqual(was.Value, s.Value):
		case s.Live:
			did.Applied = append(did.Applied, change)
		default:
			did.Restart = append(did.Restart, change)
			s = was
		}
		now = append(now, s)
	}
	return now, did
}

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
	keys := &keyTable{all: fs}
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
		line, err := tomlfile.Line(o.Name, v)
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

	"access-file":        "/etc/polystalkd/access.toml",
	"http-anonymous":     "read",
	"http-host":          []string{"ops.example.com"},
	"http-trusted-proxy": []string{"10.0.0.5"},
	"http-prefix":        "/queue",
	"http-metrics-match": []string{"mail-*"},
	"http-tls-cert":      "/etc/polystalkd/tls.crt",
	"http-tls-key":       "/etc/polystalkd/tls.key",

	"proxy-protocol": []string{"10.0.0.5"},
	"tls-cert":       "/etc/polystalkd/tls.crt",
	"tls-key":        "/etc/polystalkd/tls.key",
	"tls-client-ca":  "/etc/polystalkd/clients-ca.crt",
	"tls-client-crl": "/etc/polystalkd/clients.crl",

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
