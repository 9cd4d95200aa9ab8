package measure

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"polystalk/loadtest/proc"
	"polystalk/loadtest/workload"
)

// A process is one load process as it is seen from outside.
type process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser // its plan, and a line for each stage that it may begin
	out    *json.Decoder  // its messages
	stderr *proc.Tail
}

// start starts a load process with its plan. With an error it may have started
// nevertheless, and is returned then, to be killed.
func start(ctx context.Context, sp *proc.Spawner, plan workload.Plan) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.CommandContext(ctx, self, "worker"), stderr: &proc.Tail{}}
	p.cmd.Stderr = p.stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = json.NewDecoder(bufio.NewReader(out))
	if err := sp.Start(p.cmd, plan.Load.LoadCPUs); err != nil {
		return nil, err
	}
	return p, json.NewEncoder(p.in).Encode(plan)
}

// A crew is the processes of one load.
type crew []*process

// startCrew starts as many as the load says. The caller kills them, whatever
// is returned.
func startCrew(ctx context.Context, sp *proc.Spawner, plan workload.Plan) (crew, error) {
	var all crew
	for plan.Process = range plan.Load.Processes {
		p, err := start(ctx, sp, plan)
		if p != nil {
			all = append(all, p)
		}
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// kill ends the processes that have not ended by themselves.
func (all crew) kill() {
	for _, p := range all {
		if p.cmd.ProcessState == nil {
			p.cmd.Process.Kill()
			p.cmd.Wait()
		}
	}
}

// proceed lets all begin the next stage.
func (all crew) proceed() error {
	for _, p := range all {
		if _, err := io.WriteString(p.in, "go\n"); err != nil {
			return fmt.Errorf("load process: %w", err)
		}
	}
	return nil
}

// wait returns when all have ended by themselves.
func (all crew) wait() error {
	for _, p := range all {
		p.in.Close()
		if err := p.cmd.Wait(); err != nil {
			return fmt.Errorf("load process: %w", err)
		}
	}
	return nil
}

// await reads every process's messages until each has reached stage, and returns
// what they report with it. The first failure ends the wait.
func (all crew) await(stage workload.Stage, progress func(ops int64)) ([]*workload.Report, error) {
	type from struct {
		i   int
		m   workload.Message
		err error
	}
	messages := make(chan from, 1)
	quit := make(chan struct{})
	defer close(quit)
	for i, p := range all {
		go func() {
			for {
				var f from
				f.i = i
				f.err = p.out.Decode(&f.m)
				select {
				case messages <- f:
				case <-quit:
					return
				}
				if f.err != nil || f.m.Stage != workload.Advancing {
					return
				}
			}
		}()
	}
	reports := make([]*workload.Report, len(all))
	ops := make([]int64, len(all))
	for missing := len(all); missing > 0; {
		f := <-messages
		switch {
		case f.err != nil:
			return nil, fmt.Errorf("load process %d ended without a word (%w); its output: %s", f.i, f.err, all[f.i].stderr)
		case f.m.Stage == workload.Failed:
			return nil, fmt.Errorf("load process %d: %s", f.i, strings.TrimSpace(f.m.Error))
		case f.m.Stage == stage:
			reports[f.i] = f.m.Report
			missing--
		case f.m.Stage == workload.Advancing && progress != nil:
			ops[f.i] = f.m.Ops
			var sum int64
			for _, n := range ops {
				sum += n
			}
			progress(sum)
		case f.m.Stage != workload.Advancing:
			return nil, fmt.Errorf("load process %d: expected stage %q, got %q", f.i, stage, f.m.Stage)
		}
	}
	return reports, nil
}
