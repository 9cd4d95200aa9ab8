package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"polystalk/cmd/polystalk/client"
	"polystalk/codec/admin"
)

// A line is a job as export writes it. The members below are nil if the line lacks them.
type line struct {
	admin.Job
	Path       *string `json:"tube_path"`
	Pri        *uint32 `json:"pri"`
	TTRSeconds *uint32 `json:"ttr_seconds"`
	Base64     *[]byte `json:"body_base64"`
	Size       *int    `json:"body_bytes"`
}

func (a *App) importVerb() verb {
	var (
		to   string
		skip uint64
	)
	return verb{
		use: "import FILE", short: "put the jobs that export has written",
		long: `Puts the jobs of FILE, or with - of standard input, in their order: body, tube, priority,
remaining delay, time to run; buried jobs are buried again. Ids, ages and counters are
new, and jobs that workers had are ready. A line that the server refuses is reported, and
the import continues. If the server cannot be reached, the import ends, and shows the --skip
to continue with.

The position is kept in FILE.imported. A FILE that was imported before, or in part, is
refused without --skip, so that nothing is put twice by mistake. This holds for every
server, as a server can have several names: give --skip 0 for another server.`,
		examples: "polystalk import mail.jsonl\npolystalk import mail.jsonl --to mail-copy --skip 0",
		flags: func(fs *pflag.FlagSet) {
			a.pathFlag(fs)
			fs.StringVar(&to, "to", "", "put all jobs into this tube")
			fs.Uint64Var(&skip, "skip", 0, "skip this number of lines, which were put before")
		},
		do: func(r *run) (err error) {
			if r.changed("to") {
				if to, err = r.tubeName(to); err != nil {
					return err
				}
				if len(to) > admin.TubeNameMax {
					return client.Errorf(client.Usage, "--to is a name of %d bytes: give one of 1 to %d", len(to), admin.TubeNameMax)
				}
			}
			if c, ok := r.server.(*client.Beanstalk); ok {
				if to != "" {
					if err := client.CheckName(to); err != nil {
						return err
					}
				}
				c.Detach() // otherwise an interrupt would hide whether the current job was put
			}
			in, err := r.open(r.args[0], "give the file that polystalk export has written, or - for standard input")
			if err != nil {
				return err
			}
			defer in.Close()
			if r.args[0] != "-" && !r.changed("skip") {
				if err := r.imported(r.args[0]); err != nil {
					return err
				}
			}
			buffered := bufio.NewReaderSize(in, 1<<18)
			if err := skipLines(r.ctx, buffered, skip); err != nil {
				return err
			}
			i := importing{run: r, to: to, n: skip, progress: r.progress("import")}
			if r.args[0] != "-" {
				if i.bookmark, err = newBookmark(r.args[0], r.asked, skip); err != nil {
					r.note("the position is not remembered: %v", err)
				}
			}
			return i.all(buffered)
		},
	}
}

// skipLines reads lines without putting their jobs.
func skipLines(ctx context.Context, r *bufio.Reader, lines uint64) error {
	for n := range lines {
		text, err := r.ReadBytes('\n')
		if len(text) == 0 && errors.Is(err, io.EOF) {
			return client.Errorf(client.Usage, "there are only %s: --skip %d is too many", counted(n, "line"), lines)
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
	return client.Errorf(client.System, "line %d cannot be read: %v; continue with --skip %d", n, err, n-1)
}

// retrying returns the advice for a line that was not put, or may have been.
func retrying(n uint64) string {
	return fmt.Sprintf("To retry line %d use --skip %d; to leave it out use --skip %d.", n, n-1, n)
}

// imported refuses a file that was imported before, completely or in part, into any server.
func (a *App) imported(file string) error {
	m, found, err := readBookmark(file)
	switch {
	case err != nil:
		return client.Errorf(client.System, "the position in %s cannot be read: %v: delete %s%s if it was never imported", file, err, file, bookmarkSuffix)
	case !found || m.Ended && m.Lines == 0:
		return nil
	case m.Ended:
		return client.Errorf(client.Unconfirmed, "%s was imported into %s, as far as line %d. To continue after line %d use --skip %d; to put all of it again, or into another server, use --skip 0.",
			file, m.Server, m.Lines, m.Lines, m.Lines)
	}
	elsewhere := ""
	if a.asked != m.Server {
		elsewhere = " To put all of it into " + a.asked + " use --skip 0."
	}
	return client.Errorf(client.Unconfirmed, "%s is being imported into %s, or that was cut off: line %d may have been put or not. %s%s",
		file, m.Server, m.Lines+1, retrying(m.Lines+1), elsewhere)
}

// An importing is one import.
type importing struct {
	*run
	to       string // the tube for all jobs; empty: each has its own
	bookmark *bookmark
	progress *progress

	n   uint64 // lines that were read or skipped
	put uint64 // jobs
	bad uint64 // lines that were reported
	why error  // the reason of the first one
}

// all imports the lines.
func (i *importing) all(r *bufio.Reader) error {
	defer i.progress.end()
	for {
		text, err := r.ReadBytes('\n')
		if len(text) == 0 && errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return i.end(true, unreadLine(i.n+1, err))
		}
		if i.ctx.Err() != nil {
			return i.end(true, client.Errorf(client.NotDone, "interrupted: %s; continue with --skip %d", i.summary(), i.n))
		}
		i.n++
		if len(bytes.TrimSpace(text)) > 0 {
			if err := i.line(text); err != nil && !i.report(err) {
				return i.failed(err)
			}
			i.progress.at(i.put, 0)
		}
		if err := i.bookmark.at(i.n); err != nil {
			return i.end(true, client.Errorf(client.System, "the position cannot be written: %v; continue with --skip %d", err, i.n))
		}
	}
	if err := i.end(true, nil); err != nil {
		return err
	}
	i.progress.end()
	if i.bad > 0 && i.put == 0 {
		return client.Errorf(client.ExitCode(i.why), "nothing was put: the server refuses all of %s", counted(i.bad, "line"))
	}
	if err := i.done(doneDocument("import", i.put, i.bad), "import: %s", jobs(i.put)); err != nil {
		return err
	}
	if i.bad > 0 {
		return client.Errorf(client.NotDone, "%s, which are reported above", i.summary())
	}
	return nil
}

// summary says how many jobs were put, and how many lines were reported.
func (i *importing) summary() string {
	if i.bad == 0 {
		return jobs(i.put) + " put"
	}
	return fmt.Sprintf("%s put, %s with errors", jobs(i.put), counted(i.bad, "line"))
}

// end closes the bookmark. certain reports that the next line was not put. end returns err if it
// is not nil.
func (i *importing) end(certain bool, err error) error {
	if marked := i.bookmark.end(certain); err == nil && marked != nil {
		return client.Errorf(client.System, "all jobs were put, but the position cannot be written: %v", marked)
	}
	return err
}

// report reports a line that the server refuses. It returns false if the other lines would fail
// too: the server does not answer, is draining or full, or refuses the token.
func (i *importing) report(err error) bool {
	buried, put := errors.AsType[*unburied](err)
	if put {
		err = buried.err
	}
	if code := client.ExitCode(err); code != client.Usage && !(put && (code == client.NotDone || code == client.Nothing)) {
		return false
	}
	i.progress.end()
	if put {
		i.note("line %d %v", i.n, buried)
	} else {
		i.note("line %d was not put: %v", i.n, err)
	}
	if i.bad++; i.why == nil {
		i.why = err
	}
	return true
}

// failed ends the import at a line that was not put, or may have been.
func (i *importing) failed(err error) error {
	code := client.ExitCode(err)
	was := "was not"
	if _, there := errors.AsType[*unburied](err); there {
		return i.end(i.bookmark.at(i.n) == nil, client.Errorf(client.NotDone, "%s; line %d %v; --skip %d continues after it", i.summary(), i.n, err, i.n))
	}
	f, known := errors.AsType[*client.Error](err)
	certain := code != client.System || known && f.Unsent
	if !certain {
		was = "may have been put or not"
	}
	if i.put > 0 {
		code = client.NotDone
	}
	return i.end(certain, client.Errorf(code, "%s; line %d %s: %v. %s", i.summary(), i.n, was, err, retrying(i.n)))
}

// buryDelay is the delay, in seconds, of a job that is put to be buried. It keeps the job from
// workers until then.
const buryDelay = 3600

// readLine reads a line. It refuses content that it would have to drop.
func readLine(text []byte) (l line, body []byte, err error) {
	if err := admin.Decode(text, &l); err != nil {
		if p, ok := errors.AsType[*admin.Problem](err); ok {
			where := ""
			if p.Field != "" {
				where = "the member " + p.Field + ": "
			}
			return l, nil, client.Errorf(client.Usage, "%s%s: %s", where, p.Detail, p.Remedy)
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
		return l, nil, client.Errorf(client.Usage, "it has body and body_base64: give one of them")
	case l.Truncated, l.Text == nil && l.Base64 == nil && (l.Size == nil || *l.Size > 0):
		return l, nil, client.Errorf(client.Usage, "it has no body, or a part of it: export writes all of it")
	case l.Size != nil && *l.Size != len(body):
		return l, nil, client.Errorf(client.Usage, "body_bytes is %d, and the body has %d: export writes all of it", *l.Size, len(body))
	case l.State != "" && !slices.Contains(jobStates, l.State):
		return l, nil, client.Errorf(client.Usage, "the state \"%s\" is unknown: give ready, delayed, reserved or buried", l.State)
	}
	return l, body, nil
}

// line puts the job of a line.
func (i *importing) line(text []byte) error {
	l, body, err := readLine(text)
	if err != nil {
		return err
	}
	tube := i.to
	switch {
	case tube != "":
	case l.Path != nil:
		if tube, err = url.PathUnescape(*l.Path); err != nil {
			return client.Errorf(client.Usage, "its tube_path is not percent-encoded: give what export has written")
		}
	default:
		tube = l.Tube
	}
	if tube == "" {
		return client.Errorf(client.Usage, "it has no tube: give one by --to")
	}
	j := newJob{pri: priDefault, ttr: admin.DefaultTTR, body: body}
	if l.Pri != nil {
		j.pri = *l.Pri
	}
	if l.TTRSeconds != nil {
		j.ttr = *l.TTRSeconds
	}
	switch l.State {
	case "delayed":
		j.delay = uint32(min(max(math.Ceil(l.LeftSeconds), 1), math.MaxUint32))
	case "buried":
		j.delay = buryDelay
	}
	// An interrupt takes effect between jobs, so that each is both put and buried.
	ctx := context.WithoutCancel(i.ctx)
	id, err := put(ctx, i.server, tube, j)
	if err != nil {
		return err
	}
	i.put++
	if l.State == "buried" {
		if _, err := i.server.Ask(ctx, client.Request{Method: "POST", Path: "/jobs/{id}/bury", ID: id}); err != nil {
			return &unburied{id, err}
		}
	}
	return nil
}

// An unburied is the error of a job that was put but not buried: it is delayed.
type unburied struct {
	id  uint64
	err error
}

// Error implements error.
func (u *unburied) Error() string {
	return fmt.Sprintf("was put as job %d, and is delayed, not buried: %v", u.id, u.err)
}

// bookmarkSuffix ends the name of a bookmark, after the name of the imported file.
const bookmarkSuffix = ".imported"

// A mark is the position in a file that is being imported.
type mark struct {
	Lines uint64 `json:"lines"` // number of first lines that were put
	// Ended reports that the import knew what it had put when it ended. If false, the job of the
	// next line may have been put.
	Ended  bool   `json:"ended"`
	Server string `json:"server"` // as given to --server

	// Size and Modified identify the file: another file with the same name has no bookmark yet.
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
}

// readBookmark returns the position in a file. found is false if the file has no bookmark.
func readBookmark(file string) (m mark, found bool, err error) {
	text, err := os.ReadFile(file + bookmarkSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return m, false, nil
	}
	if err != nil {
		return m, false, err
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, false, fmt.Errorf("%s%s is not a bookmark: %w", file, bookmarkSuffix, err)
	}
	s, err := os.Stat(file)
	if err != nil {
		return m, false, err
	}
	return m, s.Size() == m.Size && s.ModTime().Equal(m.Modified), nil
}

// A bookmark is the file next to an imported file that holds the position. It is written after
// each job without a sync: it survives a crash of the program, not a power cut. A nil one does
// nothing.
type bookmark struct {
	file *os.File
	mark mark
}

// newBookmark creates a bookmark and replaces an older one.
func newBookmark(file, server string, lines uint64) (*bookmark, error) {
	s, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !s.Mode().IsRegular() {
		return nil, nil // a pipe is not read again
	}
	f, err := os.Create(file + bookmarkSuffix)
	if err != nil {
		return nil, err
	}
	b := &bookmark{f, mark{Lines: lines, Server: server, Size: s.Size(), Modified: s.ModTime()}}
	if err := b.write(); err != nil {
		f.Close()
		return nil, err
	}
	return b, nil
}

// at moves the position.
func (b *bookmark) at(lines uint64) error {
	if b == nil {
		return nil
	}
	b.mark.Lines = lines
	return b.write()
}

// end closes the bookmark. certain reports that the next line was not put.
func (b *bookmark) end(certain bool) error {
	if b == nil {
		return nil
	}
	b.mark.Ended = certain
	return errors.Join(b.write(), b.file.Close())
}

// write overwrites the mark with one call. The number of lines only grows, so the text gets
// shorter by one byte at most (Ended becomes true), and only white space is left of the old one.
func (b *bookmark) write() error {
	text, err := json.Marshal(b.mark)
	if err != nil {
		return err
	}
	_, err = b.file.WriteAt(append(text, "\n\n"...), 0)
	return err
}
