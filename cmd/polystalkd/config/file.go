package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"polystalk/cmd/polystalkd/fault"
	"polystalk/codec/tomlfile"
)

// found records the faults of err for Validate. err may be nil.
func (c *Config) found(err error) { c.faults = append(c.faults, fault.All(err)...) }

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

// readFiles reads the file of --config, FILE, and then the .toml files in the directory FILE.d,
// sorted by name. A later file takes precedence over an earlier one; the command line and the
// environment take precedence over all files. Every value is checked.
func (c *Config) readFiles() {
	if c.File == "" {
		c.refuse(c.IsSet("config"), "config", "the name of the file is empty: give one, or leave %s out", c.Spelling("config"))
		return
	}
	path, err := fromStart(c.File)
	if err != nil {
		c.found(err)
		return
	}
	c.File = path
	files, err := listFiles(path)
	c.found(err)
	last := make(map[string]*fileKey) // by our name
	for _, file := range files {
		keys, faults := readFile(file)
		c.faults = append(c.faults, faults...)
		here := make(map[string]*fileKey)
		for _, k := range keys {
			if err := c.check(k); err != nil {
				c.found(err)
			} else {
				here[c.keys.ours(k.flag)] = k
			}
		}
		// The order within a file has no meaning.
		never, every := here["no-fsync"], here["fsync-ms"]
		if never != nil && never.Value == true && every != nil && every.Value != int64(0) {
			c.found(never.fault("%s contradicts %s in line %d: leave one of the two out", never.Name, every.Name, every.Line))
		}
		for name, k := range here {
			if other := opposite[name]; here[other] == nil {
				delete(last, other)
			}
			last[name] = k
		}
	}
	c.keys.each(func(f *pflag.Flag) {
		if k := last[c.keys.ours(f)]; k != nil {
			c.take(k)
		}
	})
}

// check finds the flag of a key of a file, and checks the value.
func (c *Config) check(k *fileKey) (err error) {
	if k.flag = c.keys.all.Lookup(k.Name); k.flag == nil || !c.keys.isKey(k.flag) {
		return k.fault("%s", c.keys.unknown(k.Name))
	}
	if k.texts, err = k.textsOf(kindOf(k.flag)); err != nil {
		return err
	}
	scratch := c.keys.scratch()
	for _, s := range k.texts {
		if err := scratch.Set(k.Name, s); err != nil {
			return k.fault("%s: %s", k.Name, c.keys.complaint(k.flag, s, err, k.Name+" = "))
		}
	}
	return nil
}

// take sets a value from a file unless another source has precedence.
func (c *Config) take(k *fileKey) {
	name := c.keys.ours(k.flag)
	if c.IsSet(name) || c.IsSet(opposite[name]) && !strings.HasPrefix(c.origins[opposite[name]], "file ") {
		return
	}
	for _, s := range k.texts {
		// check has set the same value in a scratch copy without an error.
		if err := c.keys.all.Set(k.Name, s); err != nil {
			panic(fmt.Sprintf("config: %s: %v", k.Place, err))
		}
	}
	c.origins[name] = k.String()
	c.places = append(c.places, k.Place)
}

// textsOf converts a value of a file to the arguments of pflag's Set.
func (e *fileKey) textsOf(k kind) (texts []string, err error) {
	list, isList := e.Value.([]any)
	bad := isList && k != lists
	if !isList {
		list = []any{e.Value}
	}
	for _, v := range list {
		text, ok := v.(string)
		n, isNumber := v.(int64)
		b, isTruth := v.(bool)
		switch {
		case isNumber && (k == words || k == numbers):
			text = strconv.FormatInt(n, 10)
		case isTruth && k == truths:
			text = strconv.FormatBool(b)
		case !ok || k == numbers || k == truths:
			bad = true
		}
		texts = append(texts, text)
	}
	if bad {
		want := map[kind]string{
			words:   "text in quotes",
			numbers: "a whole number without quotes",
			truths:  "true or false, without quotes",
			lists:   "text in quotes, or several in brackets, as in [\"a\", \"b\"]",
		}
		return nil, e.fault("%s has a value of the wrong type: give %s", e.Name, want[k])
	}
	return texts, nil
}

// unknown returns the message for an unknown key, with the nearest key.
func (t *keyTable) unknown(word string) string {
	if f := t.all.Lookup(word); f != nil && !f.Hidden {
		return fmt.Sprintf("%q is for the command line only: leave it out", word)
	}
	if word == "http-tokens-file" {
		return fmt.Sprintf("%q: %s", word, tokensRemoved)
	}
	if near := tomlfile.Nearest(word, t.names()); near != "" {
		return fmt.Sprintf("unknown key %q: write %s, or leave it out", word, near)
	}
	return fmt.Sprintf("unknown key %q: leave it out, or see %s: the keys are the long flags without the dashes", word, t.help)
}
