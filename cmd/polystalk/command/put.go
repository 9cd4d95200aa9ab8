package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"polystalk/cmd/polystalk/fault"
	"polystalk/cmd/polystalk/queue"
	"polystalk/cmd/polystalk/views"
	"polystalk/codec/admin"
)

// priDefault is what jobs are put with: the first priority that is not urgent, so that a job
// that is put by hand does not get ahead of all others unasked.
const priDefault = 1024

func (a *App) putCommand() *cobra.Command {
	var (
		names      tubeName
		job        queue.NewJob
		delay, ttr string
		body       string
		lines      bool
	)
	c := &cobra.Command{
		Use: "put TUBE [FILE]", Short: "put a job, or one for each line", Args: arguments("TUBE", "[FILE]"),
		Long: `The body is what FILE holds, or standard input without FILE or with -, octet for
octet. The id of the job is shown.`,
		RunE: a.onQueue(func(cmd *cobra.Command, q queue.Queue, args []string) error {
			name, err := names.read(args[0])
			if err != nil {
				return err
			}
			if job.Delay, err = readSpan("--delay", delay); err != nil {
				return err
			}
			if job.TTR, err = readSpan("--ttr", ttr); err != nil {
				return err
			}
			var in io.ReadCloser
			switch {
			case cmd.Flags().Changed("body") && len(args) > 1:
				return fault.New(fault.Usage, "put: there are a FILE and a --body: give one of them")
			case cmd.Flags().Changed("body"):
				in = io.NopCloser(strings.NewReader(body))
			case len(args) > 1:
				in, err = a.open(args[1])
			default:
				in, err = a.open("-")
			}
			if err != nil {
				return err
			}
			defer in.Close()
			if lines {
				return a.putLines(cmd.Context(), q, name, job, in)
			}
			if job.Body, err = io.ReadAll(in); err != nil {
				return fault.New(fault.System, "the body cannot be read: %v", err)
			}
			id, err := q.Put(cmd.Context(), name, job)
			if err != nil {
				return err
			}
			return a.printer.Show(putDocument(id), views.Put)
		}),
	}
	names.flags(c.Flags())
	c.Flags().Uint32Var(&job.Pri, "pri", priDefault, "priority: the smallest first; below 1024 is urgent")
	c.Flags().StringVar(&delay, "delay", "0", "how long until the job is ready, such as 90s or 12h")
	c.Flags().StringVar(&ttr, "ttr", fmt.Sprint(admin.DefaultTTR), "how long a worker may take, such as 90s or 12h")
	c.Flags().StringVar(&body, "body", "", "the body itself")
	c.Flags().BoolVar(&lines, "lines", false, "a job for each line, without the end of the line; all or those before the first that fails")
	return c
}

func putDocument(id uint64) []byte {
	b, _ := json.Marshal(admin.Put{ID: id}) // a number cannot fail
	return b
}

// putLines puts a job for each line, one after the other: their ids have the order of the
// lines.
func (a *App) putLines(ctx context.Context, q queue.Queue, tube string, j queue.NewJob, in io.Reader) error {
	r := bufio.NewReaderSize(in, 1<<16)
	l := a.printer.List(views.Puts)
	for {
		line, err := r.ReadBytes('\n')
		if len(line) == 0 && errors.Is(err, io.EOF) {
			return l.Close()
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fault.New(fault.System, "the lines cannot be read: %v; %d jobs were put", err, l.N)
		}
		if n := len(line); line[n-1] == '\n' {
			line = line[:n-1]
		}
		j.Body = line
		id, err := q.Put(ctx, tube, j)
		if err != nil && l.N > 0 {
			return fault.New(fault.NotDone, "%d jobs were put; line %d was not: %v", l.N, l.N+1, err)
		}
		if err != nil {
			return err
		}
		if err := l.Page([]byte(`{"jobs":[` + string(putDocument(id)) + `]}`)); err != nil {
			return err
		}
	}
}
