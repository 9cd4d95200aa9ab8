package config

import (
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
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
			text, err := tomlLine(s.Name, s.Value)
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

// A Change is a key with a new value.
type Change struct {
	Name     string
	From, To any // as Setting.Value
	Origin   string
}

// Changes compares the settings in effect with a Config that was read again. It returns the
// settings in effect after the reload, the changes that apply at once, and the changes that need
// a restart. Only the last keep their old value and origin in now.
func Changes(running []Setting, next *Config) (now []Setting, applied, restart []Change) {
	were := make(map[string]Setting)
	for _, s := range running {
		were[s.Name] = s
	}
	for _, s := range next.Settings() {
		was := were[s.Name]
		ch := Change{s.Name, was.Value, s.Value, s.Origin}
		switch {
		case reflect.DeepEqual(was.Value, s.Value):
		case s.Live:
			applied = append(applied, ch)
		default:
			restart = append(restart, ch)
			s = was
		}
		now = append(now, s)
	}
	return now, applied, restart
}
