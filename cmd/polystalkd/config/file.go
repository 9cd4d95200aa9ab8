package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"polystalk/cmd/polystalkd/fault"
)

// found records the faults of err for Validate. err may be nil.
func (c *Config) found(err error) { c.faults = append(c.faults, fault.All(err)...) }

// badFile records a fault in a file.
func (c *Config) badFile(at filePlace, format string, args ...any) {
	f := fault.New(fault.Usage, "%s: %s", at, fmt.Sprintf(format, args...))
	f.At(at.File, at.Line, at.Text)
	c.faults = append(c.faults, f)
}

// Explain adds file and line to each fault of err about a value from a file. It sorts the faults:
// first faults without a file, then by file in reading order and by line.
func (c *Config) Explain(err error) error {
	all := fault.All(err)
	for _, f := range all {
		for _, at := range c.places {
			if rest, ok := strings.CutPrefix(f.Error(), at.String()); ok && f.File == "" && strings.IndexAny(rest, ": ") == 0 {
				f.At(at.File, at.Line, at.Text)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *fault.Fault) int { // sorts the list in err itself, if there is one
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return err
}

// opposite maps two keys that undo each other. If they come from different sources, the source
// with precedence decides both.
var opposite = map[string]string{"fsync-ms": "no-fsync", "no-fsync": "fsync-ms"}

// A filed value comes from a file.
type filed struct {
	fileKey
	flag  *pflag.Flag
	texts []string // for pflag.Set, one after the other
}

// readFiles reads the file of --config, FILE, and then the .toml files in the directory FILE.d,
// sorted by name. A later file takes precedence over an earlier one; the command line and the environment take precedence over all
// files. Every value is checked.
func (c *Config) readFiles() {
	if c.File == "" {
		if c.IsSet("config") {
			c.found(fault.New(fault.Usage, "%s: the name of the file is empty: give one, or leave %s out", c.Origin("config"), c.Spelling("config")))
		}
		return
	}
	path, err := fromStart(c.File)
	if err != nil {
		c.found(err)
		return
	}
	c.File = path
	files, problems := listFiles(path)
	last := make(map[string]filed) // by our name
	for _, file := range files {
		entries, more := readFile(file)
		problems = append(problems, more...)
		here := make(map[string]filed)
		for _, e := range entries {
			if v, ok := c.fileEntry(e); ok {
				here[c.keys.ours(v.flag)] = v
			}
		}
		c.contradictions(here)
		for name, v := range here {
			if other := opposite[name]; other != "" && here[other].flag == nil {
				delete(last, other)
			}
			last[name] = v
		}
	}
	for _, p := range problems {
		c.badFile(p.filePlace, "%s", p.Says)
	}
	c.keys.each(func(f *pflag.Flag) {
		if v, ok := last[c.keys.ours(f)]; ok {
			c.take(v)
		}
	})
}

// contradictions reports opposite keys in one file, where order has no meaning.
func (c *Config) contradictions(here map[string]filed) {
	never, every := here["no-fsync"], here["fsync-ms"]
	if never.Value == true && every.Value != nil && every.Value != int64(0) {
		c.badFile(never.filePlace, "%s contradicts %s in line %d: leave one of the two out", never.Key, every.Key, every.Line)
	}
}

// fileEntry checks one key of a file.
func (c *Config) fileEntry(e fileKey) (filed, bool) {
	f := c.keys.all.Lookup(e.Key)
	if f == nil || !c.keys.isKey(f) {
		c.badFile(e.filePlace, "%s", c.keys.unknown(e.Key))
		return filed{}, false
	}
	texts, err := textsOf(e, kindOf(f))
	if err != nil {
		c.badFile(e.filePlace, "%v", err)
		return filed{}, false
	}
	scratch := c.keys.scratch()
	for _, s := range texts {
		if err := scratch.Set(f.Name, s); err != nil {
			c.badFile(e.filePlace, "%s: %s", e.Key, fileComplaint(f, s, err, c.keys.help))
			return filed{}, false
		}
	}
	return filed{e, f, texts}, true
}

// take sets a value from a file unless another source has precedence.
func (c *Config) take(v filed) {
	name := c.keys.ours(v.flag)
	if c.IsSet(name) || c.IsSet(opposite[name]) && !strings.HasPrefix(c.origins[opposite[name]], "file ") {
		return
	}
	for _, s := range v.texts {
		// fileEntry has set the same value in a scratch copy without an error.
		if err := c.keys.all.Set(v.flag.Name, s); err != nil {
			panic(fmt.Sprintf("config: %s: %v", v.filePlace, err))
		}
	}
	c.origins[name] = v.filePlace.String()
	c.places = append(c.places, v.filePlace)
}

// textsOf converts a value of a file to the arguments of pflag's Set.
func textsOf(e fileKey, k kind) (texts []string, err error) {
	list, isList := e.Value.([]any)
	switch {
	case k != lists && isList:
		return nil, wrongType(e, k)
	case !isList:
		list = []any{e.Value}
	}
	for _, v := range list {
		text, ok := v.(string)
		n, isNumber := v.(int64)
		b, isTruth := v.(bool)
		switch {
		case k == words && isNumber, k == numbers && isNumber:
			text = strconv.FormatInt(n, 10)
		case k == truths && isTruth:
			text = strconv.FormatBool(b)
		case !ok || k == numbers || k == truths:
			return nil, wrongType(e, k)
		}
		texts = append(texts, text)
	}
	return texts, nil
}

func wrongType(e fileKey, k kind) error {
	want := map[kind]string{
		words:   "text in quotes",
		numbers: "a whole number without quotes",
		truths:  "true or false, without quotes",
		lists:   "text in quotes, or several in brackets, as in [\"a\", \"b\"]",
	}
	return fmt.Errorf("%s has a value of the wrong type: give %s", e.Key, want[k])
}

// fileComplaint is like complaint, with an example in the syntax of a file.
func fileComplaint(f *pflag.Flag, value string, err error, help string) string {
	if bad, ok := errors.AsType[*badValue](err); ok {
		remedy := bad.remedy
		if bad.example != "" {
			remedy += ", as in " + f.Name + " = " + bad.example
		}
		return fmt.Sprintf("bad value %q: %s", value, remedy)
	}
	return complaint(f, value, err, help)
}

// unknown returns the message for an unknown key, with the nearest key.
func (t *keyTable) unknown(word string) string {
	if f := t.all.Lookup(word); f != nil && !f.Hidden {
		return fmt.Sprintf("%q is for the command line only: leave it out", word)
	}
	if near := nearest(word, t.names()); near != "" {
		return fmt.Sprintf("unknown key %q: write %s, or leave it out", word, near)
	}
	return fmt.Sprintf("unknown key %q: leave it out, or see %s: the keys are the long flags without the dashes", word, t.help)
}
