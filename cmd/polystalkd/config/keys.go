package config

import (
	"strconv"

	"github.com/spf13/pflag"
)

// A keyTable is a table of flags as files and --check-config see it: each flag that says
// how the server is to be is a key, by its long name.
type keyTable struct {
	all    *pflag.FlagSet
	unused *pflag.FlagSet // those of all that have no effect; nil: none

	ours    func(*pflag.Flag) string // the name by which Config knows a flag
	help    string                   // the command that shows the flags
	scratch func() *pflag.FlagSet    // the same flags, of a Config that is thrown away
}

// isKey reports whether a flag is a key: the others ask for something else than a server,
// say where to read, or are there for old scripts.
func (t *keyTable) isKey(f *pflag.Flag) bool {
	switch f.Name {
	case "version", "help", "check-args", "check-config", "config", "config-file":
		return false
	}
	return !f.Hidden
}

// names are all keys, in the order of the table.
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

// A kind is what a key's value is in a file.
type kind int

const (
	words   kind = iota // text; a whole number is taken as it is written
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

// A value is a flag's whose setter does more than to keep what was given. Unlike pflag's
// own function values it tells what is set.
type value struct {
	kind string // as pflag has it: number, bool or string
	set  func(string) error
	get  func() string
}

// Set, String and Type implement pflag.Value.
func (v *value) Set(s string) error { return v.set(s) }
func (v *value) String() string     { return v.get() }
func (v *value) Type() string       { return v.kind }

// add defines a flag; what is in effect without it stands in its usage.
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

// numberOrNone is number for one of which 0 cannot be given, and says that there is none.
func numberOrNone(fs *pflag.FlagSet, name, short, usage string, set func(string) error, get func() int64) {
	add(fs, name, short, usage, &value{"number", set, func() string {
		if n := get(); n != 0 {
			return strconv.FormatInt(n, 10)
		}
		return ""
	}})
}

// truth defines a flag that is true where it stands without a value.
func truth(fs *pflag.FlagSet, name, short, usage string, set func(string) error, get func() bool) {
	f := add(fs, name, short, usage, &value{"bool", set, func() string { return strconv.FormatBool(get()) }})
	f.NoOptDefVal = "true"
}

// word defines a flag that takes one of several words.
func word(fs *pflag.FlagSet, name, short, usage string, set func(string) error, get func() string) {
	add(fs, name, short, usage, &value{"string", set, get})
}
