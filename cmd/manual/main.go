// Manual writes the manual pages of the programs into a directory: polystalk(1) from the
// tree of its commands, polystalkd(8) and polystalkd.toml(5) from the table of its flags.
//
//	go run ./cmd/manual -o DIR [-date 2026-11-22]
//
// The text comes from the program's own help, and the pages are made together with the packages, so
// a page always matches its program. cobra's generator is not used: it makes 40 pages, one for each
// command, needs a Markdown module, and does not know polystalkd. "man polystalk" is one page that
// can be searched.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"polystalk/cmd/internal/program"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stderr))
}

func run(args []string, stderr io.Writer) int {
	fs := flag.NewFlagSet("manual", flag.ContinueOnError)
	fs.SetOutput(stderr)
	dir := fs.String("o", "", "write the pages into this directory, which must exist")
	date := fs.String("date", time.Now().UTC().Format(time.DateOnly), "the `day` on the pages")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if err := write(*dir, *date, fs.Args()); err != nil {
		fmt.Fprintf(stderr, "manual: %v\n", err)
		return 1
	}
	return 0
}

// A maker writes one page.
type maker struct {
	file, section string
	make          func(p *page) error
}

var makers = []maker{
	{"polystalk", "1", clientPage},
	{"polystalkd", "8", daemonPage},
	{"polystalkd.toml", "5", filePage},
}

// write writes all pages. rest are the arguments after the flags.
func write(dir, date string, rest []string) error {
	switch _, err := time.Parse(time.DateOnly, date); {
	case dir == "" || len(rest) > 0:
		return errors.New("usage: manual -o DIR [-date YYYY-MM-DD]")
	case err != nil:
		return fmt.Errorf("-date %q is not a day: give one as in 2026-11-22", date)
	}
	for _, m := range makers {
		p := newPage(m.file, m.section, date, "polystalk "+program.Version)
		if err := m.make(p); err != nil {
			return fmt.Errorf("%s(%s): %w", m.file, m.section, err)
		}
		if err := os.WriteFile(filepath.Join(dir, m.file+"."+m.section), p.text(), 0o644); err != nil {
			return fmt.Errorf("%w: give a directory that exists and that this user may write to", err)
		}
	}
	return nil
}
