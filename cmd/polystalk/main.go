// Polystalk is the operators' program beside the server polystalkd: it looks at
// the directory of a journal, checks it, rescues what can be read of a damaged
// one, and writes it as beanstalkd does. It never changes what it reads.
//
//	run → command → source (lock, survey) → replica (the jobs, where they are needed)
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program; it returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	out := bufio.NewWriterSize(stdout, 1<<16)
	err := dispatch(args, out)
	if flushErr := out.Flush(); err == nil && flushErr != nil {
		err = fmt.Errorf("writing the output: %w", flushErr)
	}
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(stderr, "polystalk: %v\n", err)
	if f, ok := errors.AsType[*fault](err); ok {
		return f.code
	}
	return exitSystem
}
