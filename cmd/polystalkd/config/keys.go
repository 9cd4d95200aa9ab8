package config

import (
	"strconv"

	"github.com/spf13/pflag"
)

// A keyTable is a table of flags as keys of configuration files. Each flag that is a setting of
// the server is a key under its long name.
type keyTable struct {
	all    *pflag.FlagSet
	unused *pflag.FlagSet // flags without an effect; nil: none

	ours    func(*pflag.Flag) string // the name by which Config knows a flag
	help    string                   // the command that shows the flags
	scratch func() *pflag.FlagSet    // the same flags, of a temporary Config
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
func add(fs *pflag.FlagSet, name, short, usage string, v *value) *pflag.Flag {
	fs.VarP(v, name, short, usage)
	f := fs.Lookup(name)
	f.DefValue = ""
	return f
}

// number defines a flag that takes a whole number.
func number(fs *pflag.FlagSet, name, short, usage string, set func(string) error, get func() int64) {
	add(fs, name, short, usage, &value{"number", set, func() string { return strconv.FormatInt(get(), 10) }})
}

// numberOrNone is like number for a flag that cannot be 0: 0 means not set.
func numberOrNone(fs *pflag.FlagSet, name, short, usage string, set func(string) error, get func() int64) {
	add(fs, name, short, usage, &value{"number", set, func() string {
		if n := get(); n != 0 {
			return strconv.FormatInt(n, 10)
		}
		return ""
	}})
}

// truth defines a flag that is true when it is given without a value.
func truth(fs *pflag.FlagSet, name, short, usage string, set func(string) error, get func() bool) {
	f := add(fs, name, short, usage, &value{"bool", set, func() string { return strconv.FormatBool(get()) }})
	f.NoOptDefVal = "true"
}

// word defines a flag that takes a word.
func word(fs *pflag.FlagSet, name, short, usage string, set func(string) error, get func() string) {
	add(fs, name, short, usage, &value{"string", set, get})
}
