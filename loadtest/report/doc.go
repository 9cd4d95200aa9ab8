// Package report shows what a session measured: a Display while it runs, the table
// at its end, and the files that are asked for.
//
//	Display    one line that is rewritten, or one line per run
//	Document   everything that a session found; its forms are JSON, CSV, Markdown
//	Files      where which of them is to be written
//	chart      CPU and throughput relative to the first server, as SVG or PNG
//
// The Markdown and the JSON are published and compared with earlier ones: a change
// of their form is a change for readers.
//
// It imports compare, measure and workload, and is the only package that knows
// gonum plot. main.go alone imports it.
package report
