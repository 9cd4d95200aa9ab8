package config

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// A keyTable is the flags of a command line, which are also the keys of configuration files: each
// flag that is a setting of the server is a key under its long name.
type keyTable struct {
	all     *pflag.FlagSet
	renamed map[string]string     // a flag of gearmand → its name in polystalkd's own command line
	unused  *pflag.FlagSet        // flags without an effect; nil: none
	help    string                // the command that shows the flags
	scratch func() *pflag.FlagSet // the same flags, of a temporary Config
}

// ours returns the name by which Config knows a flag: see Config.Origin.
func (t *keyTable) ours(f *pflag.Flag) string {
	return cmp.Or(t.renamed[f.Name], f.Name)
}

// isKey reports whether a flag is a key. Flags that start no server, name a file of settings or
// only support old scripts are not keys.
func (t *keyTable) isKey(f *pflag.Flag) bool {
	switch f.Name {
	case "version", "help", "check-args", "check-config", "config", "config-file":
		return false
	}
	return !f.Hidden
}

// names returns all keys, in the order of the table.
func (t *keyTable) names() (names []string) {
	t.each(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

// each calls f with every key.
func (t *keyTable) each(f func(*pflag.Flag)) {
	t.all.VisitAll(func(flag *pflag.Flag) {
		if t.isKey(flag) {
			f(flag)
		}
	})
}

// A kind is the type of a key's value in a file.
type kind int

const (
	words   kind = iota // text, or a whole number
	numbers             // a whole number
	truths              // true or false
	lists               // several words
)

func kindOf(f *pflag.Flag) kind {
	switch f.Value.Type() {
	case "stringArray":
		return lists
	case "bool", "boolfunc":
		return truths
	case "int", "count", "number":
		return numbers
	}
	return words
}

// A value is the value of a flag with a setter function. Unlike pflag's function values it can
// also return the current setting.
type value struct {
	kind string // pflag's name of the type: number, bool or string
	set  func(string) error
	get  func() string
}

// Set, String and Type implement pflag.Value.
func (v *value) Set(s string) error { return v.set(s) }
func (v *value) String() string     { return v.get() }
func (v *value) Type() string       { return v.kind }

// add defines a flag. The usage text must name the default.
func add(fs *pflag.FlagSet, name, short, usage, kind string, set func(string) error, get func() string) *pflag.Flag {
	fs.VarP(&value{kind, set, get}, name, short, usage)
	f := fs.Lookup(name)
	f.DefValue = ""
	return f
}

// number defines a flag that takes a whole number from least to most. Zero means not set if it is
// less than least. remedy and example are for the message about a bad value.
func number[T int | int64 | uint32](fs *pflag.FlagSet, name, short, usage string, to *T, least, most uint64, remedy, example string) {
	set := func(s string) error {
		n, negative, ok := parseNumber(s)
		if !ok || negative || n < least || n > most {
			return &badValue{remedy, example}
		}
		*to = T(n)
		return nil
	}
	add(fs, name, short, usage, "number", set, func() string {
		if *to == 0 && least > 0 {
			return ""
		}
		return strconv.FormatInt(int64(*to), 10)
	})
}

// duration defines a flag for a duration with its unit.
func duration(fs *pflag.FlagSet, name string, to *time.Duration, is, least, most time.Duration, usage string) {
	*to = is
	set := func(s string) error {
		d, err := time.ParseDuration(s)
		if err != nil || d < least || d > most {
			return &badValue{fmt.Sprintf("give a time with its unit, from %v to %v", least, most), is.String()}
		}
		*to = d
		return nil
	}
	add(fs, name, "", fmt.Sprintf("%s (default %v)", usage, is), "string", set, func() string { return to.String() })
}

// A badValue is the error of a flag's setter: the remedy and, where one helps, an example.
type badValue struct{ remedy, example string }

func (b *badValue) Error() string { return b.remedy }

// noEffect defines a flag that only warns when it is given.
func (c *Config) noEffect(fs *pflag.FlagSet, name, short, usage, why string) *pflag.Flag {
	fs.BoolFuncP(name, short, usage, func(s string) error {
		on, err := strconv.ParseBool(s)
		if err == nil && on {
			c.warn("flag %s has no effect: %s", spelling(fs.Lookup(name)), why)
		}
		return err
	})
	return fs.Lookup(name)
}

// parseNumber reads a number by beanstalkd's rules: white space and one sign may precede the
// digits, and nothing may follow them. A number that is too large becomes the largest. negative
// reports a number below zero.
func parseNumber(s string) (n uint64, negative, ok bool) {
	s = strings.TrimLeft(s, " \t\n\v\f\r")
	if s != "" && (s[0] == '+' || s[0] == '-') {
		negative = s[0] == '-'
		s = s[1:]
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) || strings.Trim(s, "0123456789") != "" {
		return 0, false, false
	}
	return n, negative && n > 0, true
}
