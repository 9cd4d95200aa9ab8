package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"polystalk/loadtest/compare"
	"polystalk/loadtest/proc"
	"polystalk/loadtest/report"
)

// session runs what o asks for and writes all reports. What was measured
// before a failure is still written to the table.
func session(ctx context.Context, o *options, stdout io.Writer) error {
	started := time.Now()
	runs, err := o.Run(ctx, proc.NewSpawner())
	sums := compare.Summarize(runs, o.Targets[0].Name)
	if len(sums) > 0 && !o.files.UseStdout() {
		if err := report.WriteTable(stdout, sums); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	d := &report.Document{Started: started, Took: time.Since(started).Round(time.Second).String(), Machine: report.ThisMachine(),
		Command: o.command, Servers: o.Targets, Loads: o.Loads, Summary: sums, Runs: runs, Protocol: o.Protocol}
	var asserted []compare.Verdict
	for _, a := range o.asserts {
		asserted = append(asserted, a.Judge(runs, o.Targets)...)
	}
	d.Verdicts = asserted
	if o.goals {
		for _, g := range o.Protocol.Goals {
			a, err := compare.ParseAssertion(g)
			if err != nil {
				return err
			}
			d.Verdicts = append(d.Verdicts, a.Judge(runs, o.Targets)...)
		}
	}
	for _, v := range d.Verdicts {
		fmt.Fprintln(os.Stderr, v)
	}
	return errors.Join(o.files.Write(d), compare.Failures(asserted))
}
