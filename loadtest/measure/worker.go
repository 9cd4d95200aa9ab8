package measure

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"polystalk/loadtest/workload"
)

// Worker is a load process: it reads its plan, whose protocol is one of protos,
// from the first line of in, goes through the stages when told to, and ends
// when the process that started it does. Its error has been reported already.
func Worker(ctx context.Context, protos workload.Protocols, in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	enc := json.NewEncoder(out)
	text, err := lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("load process: no plan: %w", err)
	}
	var p workload.Plan
	if err := json.Unmarshal(text, &p); err != nil {
		return fmt.Errorf("load process: bad plan: %w", err)
	}
	proto, err := protos.Named(p.Load.Protocol)
	if err != nil {
		return fmt.Errorf("load process: bad plan: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	step := make(chan struct{})
	go func() { // the coordinator's end of the pipe closes if it dies
		for {
			if _, err := lines.ReadBytes('\n'); err != nil {
				cancel(errors.New("the coordinator has gone"))
				return
			}
			step <- struct{}{}
		}
	}()
	err = workload.Run(ctx, proto, p, func(m workload.Message) error {
		if err := enc.Encode(m); err != nil || m.Stage == workload.Advancing || m.Stage == workload.Ended {
			return err
		}
		select {
		case <-step:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	if err != nil {
		enc.Encode(workload.Message{Stage: workload.Failed, Error: err.Error()})
	}
	return err
}
