package command

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"

	"github.com/spf13/cobra"

	"polystalk/cmd/polystalk/bookmark"
	"polystalk/cmd/polystalk/fault"
	"polystalk/cmd/polystalk/queue"
	"polystalk/cmd/polystalk/wire"
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
ages and counters are new ones, and what a worker had is ready. A line that the
server does not take is reported, and import continues with the next one. A server
that cannot be asked ends it; it is said how --skip goes on there.

How far it has come is kept in FILE.imported. A FILE that was imported before, or in
part, is refused without --skip, so that nothing is put twice unasked.`,
		RunE: a.onQueue(func(cmd *cobra.Command, q queue.Queue, args []string) error {
			if cmd.Flags().Changed("to") {
				name, err := names.read(to)
				if err != nil {
					return err
				}
				to = name
			}
			if w, ok := q.(*wire.Conn); ok {
				w.Detach() // else nobody would know of the job that is under way
			}
			in, err := a.open(args[0], "give the file that polystalk export has written, or - for standard input")
			if err != nil {
				return err
			}
			defer in.Close()
			i := importing{a: a, q: q, to: to, skip: skip, progress: a.progress("import")}
			if args[0] != "-" {
				if !cmd.Flags().Changed("skip") {
					if err := imported(args[0]); err != nil {
						return err
					}
				}
				if i.mark, err = bookmark.Begin(args[0], a.asked, skip); err != nil {
					a.note("how far it comes is not remembered: %v", err)
				}
			}
			return i.all(cmd.Context(), in)
		}),
	}
	names.flags(c.Flags())
	c.Flags().StringVar(&to, "to", "", "put all into this tube")
	c.Flags().Uint64Var(&skip, "skip", 0, "leave so many lines out, that were put before")
	return c
}

// imported refuses a file that was imported before, or in part.
func imported(file string) error {
	m, found, err := bookmark.Read(file)
	switch {
	case err != nil:
		return fault.New(fault.System, "it cannot be seen how far %s was imported: %v: delete %s%s if it was not", file, err, file, bookmark.Suffix)
	case !found || m.Ended && m.Lines == 0:
		return nil
	case m.Ended:
		return fault.New(fault.Unconfirmed, "%s was imported into %s, as far as line %d: --skip %d goes on behind it, --skip 0 puts all of it again", file, m.Server, m.Lines, m.Lines)
	}
	return fault.New(fault.Unconfirmed, "%s is imported into %s, or was until something ended that: line %d was put, the next one perhaps: --skip %d goes on with that one, --skip %d behind it, --skip 0 puts all again",
		file, m.Server, m.Lines, m.Lines, m.Lines+1)
}

// An importing is one import under way.
type importing struct {
	a        *App
	q        queue.Queue
	to       string // the tube of all; empty: each has its own
	skip     uint64 // lines
	mark     *bookmark.Bookmark
	progress *progress

	n   uint64 // lines that were read
	put uint64 // jobs
	bad uint64 // lines that were reported
	why error  // of the first of them
}

// all imports all lines, and says how far it has come.
func (i *importing) all(ctx context.Context, in io.Reader) error {
	defer i.progress.end()
	r := bufio.NewReaderSize(in, 1<<18)
	for {
		text, err := r.ReadBytes('\n')
		if len(text) == 0 && errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return i.end(true, fault.New(fault.System, "line %d cannot be read: %v; go on with --skip %d", i.n+1, err, i.n))
		}
		if ctx.Err() != nil {
			return i.end(true, fault.New(fault.NotDone, "interrupted: %s; go on with --skip %d", i.done(), i.n))
		}
		if i.n++; i.n <= i.skip {
			continue
		}
		if len(bytes.TrimSpace(text)) > 0 {
			if err := i.line(ctx, text); err != nil && !i.report(err) {
				return i.failed(err)
			}
			i.progress.at(i.put, 0)
		}
		if err := i.mark.At(i.n); err != nil {
			return i.end(true, fault.New(fault.System, "it cannot be kept how far it has come: %v; go on with --skip %d", err, i.n))
		}
	}
	if err := i.end(true, nil); err != nil {
		return err
	}
	i.progress.end()
	if i.bad > 0 && i.put == 0 {
		return fault.New(fault.Code(i.why), "nothing was put: the server takes none of %s", counted(i.bad, "line"))
	}
	if err := i.a.done(doneDocument("import", int(i.put), int(i.bad)), "import: %s", jobs(i.put)); err != nil {
		return err
	}
	if i.bad > 0 {
		return fault.New(fault.NotDone, "%s, which are reported above", i.done())
	}
	return nil
}

// done says how many jobs were put, and how many lines were reported.
func (i *importing) done() string {
	if i.bad == 0 {
		return jobs(i.put) + " put"
	}
	return fmt.Sprintf("%s put, %s with errors", jobs(i.put), counted(i.bad, "line"))
}

// end leaves the bookmark where it is. What went wrong before matters more than that.
func (i *importing) end(certain bool, err error) error {
	if marked := i.mark.End(certain); err == nil && marked != nil {
		return fault.New(fault.System, "all was put, and that cannot be kept: %v", marked)
	}
	return err
}

// report reports a line that the server does not take as it is, so that import continues. It
// returns false when the other lines would fail as well: when the server does not answer,
// drains, is full or refuses the token.
func (i *importing) report(err error) bool {
	buried, put := errors.AsType[*unburied](err)
	if put {
		err = buried.err
	}
	if code := fault.Code(err); code != fault.Usage && !(put && (code == fault.NotDone || code == fault.Nothing)) {
		return false
	}
	i.progress.end()
	if put {
		i.a.note("line %d %v", i.n, buried)
	} else {
		i.a.note("line %d was not put: %v", i.n, err)
	}
	if i.bad++; i.why == nil {
		i.why = err
	}
	return true
}

// failed is the end at a line that was not put, or of which that is not known.
func (i *importing) failed(err error) error {
	code := fault.Code(err)
	was := "was not"
	if _, there := errors.AsType[*unburied](err); there {
		return i.end(i.mark.At(i.n) == nil, fault.New(fault.NotDone, "%s; line %d %v; --skip %d goes on behind it", i.done(), i.n, err, i.n))
	}
	certain := code != fault.System
	if !certain {
		was = "may have been put or not"
	}
	if i.put > 0 {
		code = fault.NotDone
	}
	return i.end(certain, fault.New(code, "%s; line %d %s: %v; --skip %d goes on with it, --skip %d behind it", i.done(), i.n, was, err, i.n-1, i.n))
}

// buryDelay is for how long a job that is to be buried is delayed until that is done, in
// seconds: no worker gets it in between.
const buryDelay = 3600

// line puts the job of a line.
func (i *importing) line(ctx context.Context, text []byte) error {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return fault.New(fault.Usage, "it is no job: %v: give what export has written", err)
	}
	tube := i.to
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
	id, err := i.q.Put(ctx, tube, j)
	if err != nil {
		return err
	}
	i.put++
	if l.State == "buried" {
		if err := i.q.Bury(ctx, id, false); err != nil {
			return &unburied{id, err}
		}
	}
	return nil
}

// An unburied job was put, and is delayed.
type unburied struct {
	id  uint64
	err error
}

// Error implements error.
func (u *unburied) Error() string {
	return fmt.Sprintf("was put as job %d, and is delayed, not buried: %v", u.id, u.err)
}
