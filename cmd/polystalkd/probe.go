package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
	"polystalk/cmd/polystalkd/probe"
)

// probeWait bounds a probe, so that whoever starts one each few seconds never has two at
// once. A server that is well answers within milliseconds.
const probeWait = 5 * time.Second

// sick is the exit code of a probe that does not find the server well, whatever the cause:
// container engines know 0 and 1.
const sick = 1

// probe serves --probe. err is what Validate has found. It writes one line, and returns the
// exit code.
func (p *program) probe(c *config.Config, err error, stdout, stderr io.Writer) int {
	var line string
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), probeWait)
		defer cancel()
		line, err = probe.Ask(ctx, c, c.Probe)
	}
	if err != nil {
		p.complain(stderr, fault.All(err)[0])
		return sick
	}
	fmt.Fprintln(stdout, line)
	return fault.OK
}
