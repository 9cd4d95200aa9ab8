package report

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Files are where to write which form of a document: a path, - for standard
// output, or empty for nowhere.
type Files struct {
	JSON, CSV, Markdown string
	Chart               string // its ending says which format: see CheckChartName
}

// UseStdout tells whether one of them goes to standard output, so that nothing
// else should.
func (f Files) UseStdout() bool { return f.JSON == "-" || f.CSV == "-" || f.Markdown == "-" }

// Write writes all that is asked for; one that fails does not keep the others.
func (f Files) Write(d *Document) error {
	var errs []error
	if f.JSON != "" {
		errs = append(errs, writeFile(f.JSON, d.WriteJSON))
	}
	if f.CSV != "" {
		errs = append(errs, writeFile(f.CSV, d.WriteCSV))
	}
	if f.Chart != "" {
		errs = append(errs, writeFile(f.Chart, func(w io.Writer) error { return writeChart(w, f.Chart, d.Summary, d.Servers) }))
	}
	if f.Markdown != "" {
		link := ""
		if f.Chart != "" {
			rel, err := filepath.Rel(filepath.Dir(f.Markdown), f.Chart)
			errs = append(errs, err)
			link = filepath.ToSlash(rel)
		}
		errs = append(errs, writeFile(f.Markdown, func(w io.Writer) error { return d.WriteMarkdown(w, link) }))
	}
	return errors.Join(errs...)
}

// writeFile creates path with what write writes; "-" is standard output.
func writeFile(path string, write func(io.Writer) error) error {
	if path == "-" {
		return write(os.Stdout)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.Close()
		return fmt.Errorf("write %s: %w", path, err)
	}
	return f.Close()
}
