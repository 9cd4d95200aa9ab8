package command

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/url"

	"github.com/spf13/cobra"

	"polystalk/cmd/polystalk/fault"
	"polystalk/cmd/polystalk/queue"
	"polystalk/codec/admin"
)

// A line is one of what export writes.
type line struct {
	Tube   string   `json:"tube"`
	Path   *string  `json:"tube_path"`
	State  string   `json:"state"`
	Pri    *uint32  `json:"pri"`
	TTR    *uint32  `json:"ttr_seconds"`
	Left   float64  `json:"left_seconds"`
	Text   *string  `json:"body"`
	Base64 *[]byte  `json:"body_base64"`
	Part   bool     `json:"body_truncated"`
	Size   *float64 `json:"body_bytes"`
}

func (a *App) importCommand() *cobra.Command {
	var (
		names tubeName
		to    string
		skip  uint64
	)
	c := &cobra.Command{
		Use: "import FILE", Short: "put the jobs that export has written", Args: arguments("FILE"),
		Long: `Puts the jobs of FILE, or of standard input with -, in their order: body, tube,
priority, the rest of the delay, time to run; buried ones are buried again. Ids,
ages and counters are new ones, and what a worker had is ready. The first line that
cannot be put ends it; it is said how --skip goes on there, so that nothing is put
twice.`,
		RunE: a.onQueue(func(cmd *cobra.Command, q queue.Queue, args []string) error {
			if cmd.Flags().Changed("to") {
				name, err := names.read(to)
				if err != nil {
					return err
				}
				to = name
			}
			in, err := a.open(args[0])
			if err != nil {
				return err
			}
			defer in.Close()
			return a.importLines(cmd.Context(), q, in, to, skip)
		}),
	}
	names.flags(c.Flags())
	c.Flags().StringVar(&to, "to", "", "put all into this tube")
	c.Flags().Uint64Var(&skip, "skip", 0, "leave so many lines out, that were put before")
	return c
}

func (a *App) importLines(ctx context.Context, q queue.Queue, in io.Reader, to string, skip uint64) error {
	p := a.progress("import")
	defer p.end()
	r := bufio.NewReaderSize(in, 1<<18)
	var n, put uint64
	for {
		text, err := r.ReadBytes('\n')
		if len(text) == 0 && errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fault.New(fault.System, "line %d cannot be read: %v; go on with --skip %d", n+1, err, n)
		}
		if ctx.Err() != nil {
			return fault.New(fault.NotDone, "interrupted: %s put; go on with --skip %d", jobs(put), n)
		}
		if n++; n <= skip || len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		if err := a.importLine(ctx, q, text, to); err != nil {
			code := fault.Code(err)
			if put > 0 {
				code = fault.NotDone
			}
			return fault.New(code, "%s put; line %d was not: %v; --skip %d goes on with it, --skip %d behind it", jobs(put), n, err, n-1, n)
		}
		put++
		p.at(put, 0)
	}
	p.end()
	return a.done(doneDocument("import", int(put), 0), "import: %s", jobs(put))
}

// buryDelay is for how long a job that is to be buried is delayed until that is done, in
// seconds: no worker gets it in between.
const buryDelay = 3600

func (a *App) importLine(ctx context.Context, q queue.Queue, text []byte, to string) error {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return fault.New(fault.Usage, "it is no job: %v: give what export has written", err)
	}
	tube := to
	switch {
	case l.Part, l.Text == nil && l.Base64 == nil && (l.Size == nil || *l.Size > 0):
		return fault.New(fault.Usage, "it has no body, or a part of it: export writes all of it")
	case tube != "":
	case l.Path != nil:
		var err error
		if tube, err = url.PathUnescape(*l.Path); err != nil {
			return fault.New(fault.Usage, "its tube_path is not percent-encoded: give what export has written")
		}
	default:
		tube = l.Tube
	}
	if tube == "" {
		return fault.New(fault.Usage, "it has no tube: give one by --to")
	}
	j := queue.NewJob{Pri: priDefault, TTR: admin.DefaultTTR}
	if l.Pri != nil {
		j.Pri = *l.Pri
	}
	if l.TTR != nil {
		j.TTR = *l.TTR
	}
	switch {
	case l.Text != nil:
		j.Body = []byte(*l.Text)
	case l.Base64 != nil:
		j.Body = *l.Base64
	}
	switch l.State {
	case "delayed":
		j.Delay = uint32(min(max(math.Ceil(l.Left), 1), math.MaxUint32))
	case "buried":
		j.Delay = buryDelay
	}
	// Once it is begun, a job is put and buried, also if somebody interrupts that.
	ctx = context.WithoutCancel(ctx)
	id, err := q.Put(ctx, tube, j)
	if err == nil && l.State == "buried" {
		if err := q.Bury(ctx, id, false); err != nil {
			return fault.New(fault.Code(err), "it was put as job %d, and is delayed, not buried: %v", id, err)
		}
	}
	return err
}
