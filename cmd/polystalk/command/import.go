package command

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"slices"

	"github.com/spf13/cobra"

	"polystalk/cmd/polystalk/bookmark"
	"polystalk/cmd/polystalk/fault"
	"polystalk/cmd/polystalk/queue"
	"polystalk/cmd/polystalk/wire"
	"polystalk/codec/admin"
)

// A line is a job as export writes it. A line that was written by hand may leave members out;
// those below are nil then.
type line struct {
	admin.Job
	Path       *string `json:"tube_path"`
	Pri        *uint32 `json:"pri"`
	TTRSeconds *uint32 `json:"ttr_seconds"`
	Base64     *[]byte `json:"body_base64"`
	Size       *int    `json:"body_bytes"`
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
part, is refused without --skip, so that nothing is put twice unasked. This holds for
every server, as one server can have several names: give --skip 0 for another server.`,
		RunE: a.onQueue(func(cmd *cobra.Command, q queue.Queue, args []string) error {
			if cmd.Flags().Changed("to") {
				name, err := names.read(to)
				if err != nil {
					return err
				}
				if len(name) > admin.TubeNameMax {
					return fault.New(fault.Usage, "--to is a name of %d bytes: give one of 1 to %d", len(name), admin.TubeNameMax)
				}
				to = name
			}
			if w, ok := q.(*wire.Conn); ok {
				if to != "" {
					if err := wire.CheckName(to); err != nil {
						return err
					}
				}
				w.Detach() // else nobody would know of the job that is under way
			}
			in, err := a.open(args[0], "give the file that polystalk export has written, or - for standard input")
			if err != nil {
				return err
			}
			defer in.Close()
			if args[0] != "-" && !cmd.Flags().Changed("skip") {
				if err := a.imported(args[0]); err != nil {
					return err
				}
			}
			r := bufio.NewReaderSize(in, 1<<18)
			if err := skipLines(cmd.Context(), r, skip); err != nil {
				return err
			}
			i := importing{a: a, q: q, to: to, n: skip, progress: a.progress("import")}
			if args[0] != "-" {
				if i.mark, err = bookmark.Begin(args[0], a.asked, skip); err != nil {
					a.note("how far it comes is not remembered: %v", err)
				}
			}
			return i.all(cmd.Context(), r)
		}),
	}
	names.flags(c.Flags())
	c.Flags().StringVar(&to, "to", "", "put all into this tube")
	c.Flags().Uint64Var(&skip, "skip", 0, "leave so many lines out, that were put before")
	return c
}

// skipLines reads the first lines, which were put before.
func skipLines(ctx context.Context, r *bufio.Reader, lines uint64) error {
	for n := range lines {
		text, err := r.ReadBytes('\n')
		if len(text) == 0 && errors.Is(err, io.EOF) {
			return fault.New(fault.Usage, "there are only %s: --skip %d is too many", counted(n, "line"), lines)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return unreadLine(n+1, err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

func unreadLine(n uint64, err error) error {
	return fault.New(fault.System, "line %d cannot be read: %v; go on with --skip %d", n, err, n-1)
}

// retrying is what to do about a line that was not put, or perhaps.
func retrying(n uint64) string {
	return fmt.Sprintf("To retry line %d use --skip %d; to leave it out use --skip %d.", n, n-1, n)
}

// imported refuses a file that was imported before, or in part, into any server: one server can have
// several names.
func (a *App) imported(file string) error {
	m, found, err := bookmark.Read(file)
	switch {
	case err != nil:
		return fault.New(fault.System, "it cannot be seen how far %s was imported: %v: delete %s%s if it was not", file, err, file, bookmark.Suffix)
	case !found || m.Ended && m.Lines == 0:
		return nil
	case m.Ended:
		return fault.New(fault.Unconfirmed, "%s was imported into %s, as far as line %d. To continue after line %d use --skip %d; to put all of it again, or into another server, use --skip 0.",
			file, m.Server, m.Lines, m.Lines, m.Lines)
	}
	elsewhere := ""
	if a.asked != m.Server {
		elsewhere = " To put all of it into " + a.asked + " use --skip 0."
	}
	return fault.New(fault.Unconfirmed, "%s is being imported into %s, or that was cut off: line %d may have been put or not. %s%s",
		file, m.Server, m.Lines+1, retrying(m.Lines+1), elsewhere)
}

// An importing is one import under way.
type importing struct {
	a        *App
	q        queue.Queue
	to       string // the tube of all; empty: each has its own
	mark     *bookmark.Bookmark
	progress *progress

	n   uint64 // lines that were read, or skipped
	put uint64 // jobs
	bad uint64 // lines that were reported
	why error  // of the first of them
}

// all imports all lines, and says how far it has come.
func (i *importing) all(ctx context.Context, r *bufio.Reader) error {
	defer i.progress.end()
	for {
		text, err := r.ReadBytes('\n')
		if len(text) == 0 && errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return i.end(true, unreadLine(i.n+1, err))
		}
		if ctx.Err() != nil {
			return i.end(true, fault.New(fault.NotDone, "interrupted: %s; go on with --skip %d", i.done(), i.n))
		}
		i.n++
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
	f, known := errors.AsType[*fault.Fault](err)
	certain := code != fault.System || known && f.Unsent
	if !certain {
		was = "may have been put or not"
	}
	if i.put > 0 {
		code = fault.NotDone
	}
	return i.end(certain, fault.New(code, "%s; line %d %s: %v. %s", i.done(), i.n, was, err, retrying(i.n)))
}

// buryDelay is for how long a job that is to be buried is delayed until that is done, in
// seconds: no worker gets it in between.
const buryDelay = 3600

// states are those of a job; without one it is ready.
var states = []string{"", "ready", "delayed", "reserved", "buried"}

// readLine reads a line. Nothing in it is left unread, so that nothing is lost unsaid.
func readLine(text []byte) (l line, body []byte, err error) {
	if err := admin.Decode(text, &l); err != nil {
		if p, ok := errors.AsType[*admin.Problem](err); ok {
			where := ""
			if p.Field != "" {
				where = "the member " + p.Field + ": "
			}
			return l, nil, fault.New(fault.Usage, "%s%s: %s", where, p.Detail, p.Remedy)
		}
		return l, nil, err
	}
	switch {
	case l.Text != nil:
		body = []byte(*l.Text)
	case l.Base64 != nil:
		body = *l.Base64
	}
	switch {
	case l.Text != nil && l.Base64 != nil:
		return l, nil, fault.New(fault.Usage, "it has body and body_base64: give one of them")
	case l.Truncated, l.Text == nil && l.Base64 == nil && (l.Size == nil || *l.Size > 0):
		return l, nil, fault.New(fault.Usage, "it has no body, or a part of it: export writes all of it")
	case l.Size != nil && *l.Size != len(body):
		return l, nil, fault.New(fault.Usage, "body_bytes is %d, and the body has %d: export writes all of it", *l.Size, len(body))
	case !slices.Contains(states, l.State):
		return l, nil, fault.New(fault.Usage, "the state \"%s\" is unknown: give ready, delayed, reserved or buried", l.State)
	}
	return l, body, nil
}

// line puts the job of a line.
func (i *importing) line(ctx context.Context, text []byte) error {
	l, body, err := readLine(text)
	if err != nil {
		return err
	}
	tube := i.to
	switch {
	case tube != "":
	case l.Path != nil:
		if tube, err = url.PathUnescape(*l.Path); err != nil {
			return fault.New(fault.Usage, "its tube_path is not percent-encoded: give what export has written")
		}
	default:
		tube = l.Tube
	}
	if tube == "" {
		return fault.New(fault.Usage, "it has no tube: give one by --to")
	}
	j := queue.NewJob{Pri: priDefault, TTR: admin.DefaultTTR, Body: body}
	if l.Pri != nil {
		j.Pri = *l.Pri
	}
	if l.TTRSeconds != nil {
		j.TTR = *l.TTRSeconds
	}
	switch l.State {
	case "delayed":
		j.Delay = uint32(min(max(math.Ceil(l.LeftSeconds), 1), math.MaxUint32))
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
