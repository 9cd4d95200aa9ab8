package command

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"polystalk/cmd/internal/terminal"
	"polystalk/cmd/polystalk/fault"
)

// A consent is how somebody says that he means it.
type consent struct {
	yes, dryRun bool
	expect      int64 // jobs at most; negative: any number
}

func (c *consent) flags(fs *pflag.FlagSet) {
	fs.BoolVar(&c.yes, "yes", false, "do not ask")
	fs.BoolVar(&c.dryRun, "dry-run", false, "say how many jobs are selected, and do nothing")
	fs.Int64Var(&c.expect, "expect", -1, "do nothing if more jobs than this are selected; default: any number")
	fs.Lookup("expect").DefValue = "0" // which is not shown
}

// expected reports a number of jobs that is more than was expected.
func (c *consent) expected(jobs uint64) error {
	if c.expect >= 0 && jobs > uint64(c.expect) {
		return fault.New(fault.NotDone, "%s selected, and at most %d expected: nothing was done; look at them, or expect more", counted(jobs, "job"), c.expect)
	}
	return nil
}

// confirm asks whether to go on, if there is somebody to be asked; what is such as
// "delete 5 jobs of tube mail".
func (a *App) confirm(ctx context.Context, c *consent, what string) error {
	if c.yes {
		return nil
	}
	if !a.Screens.In || !a.Screens.Err {
		return fault.New(fault.Unconfirmed, "this would %s: give --yes if that is meant, or --dry-run to look", what)
	}
	_ = a.out.Flush() // who writes next hears of it
	fmt.Fprintf(a.Err, "%s%s? [y/N] ", strings.ToUpper(what[:1]), terminal.Safe(what[1:]))
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(a.In).ReadString('\n') // without an answer it is no
		answer <- line
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(a.Err)
		return ctx.Err()
	case line := <-answer:
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return nil
		}
		if !strings.HasSuffix(line, "\n") {
			fmt.Fprintln(a.Err)
		}
		return fault.New(fault.Unconfirmed, "nothing was done: answer y to go on")
	}
}
