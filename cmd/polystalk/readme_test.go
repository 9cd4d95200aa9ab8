package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestReadmeNamesEveryCommand: what --help lists is explained in README.md, with the
// flags that a command has.
func TestReadmeNamesEveryCommand(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range commands() {
		if want := "`polystalk journal " + c.name + " " + strings.Join(c.args, " ") + "`"; !strings.Contains(string(text), want) {
			t.Errorf("README.md does not have %s", want)
		}
		fs := pflag.NewFlagSet(c.name, pflag.ContinueOnError)
		c.new(fs)
		fs.VisitAll(func(f *pflag.Flag) {
			if !strings.Contains(string(text), "--"+f.Name) {
				t.Errorf("README.md does not name --%s of %s", f.Name, c.name)
			}
		})
	}
}
