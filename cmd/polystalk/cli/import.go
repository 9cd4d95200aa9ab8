package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/pflag"

	"polystalk/cmd/polystalk/client"
	"polystalk/codec/admin"
)

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
				c.Detach() // otherwise an interrupt would hide which jobs were put
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
			p := putting{run: r, progress: r.progress("import"), longest: longestLine}
			p.done = func() error {
				return r.done(doneDocument("import", p.put, p.bad), "import: %s", jobs(p.put))
			}
			p.parse = func(text []byte) (j admin.LineJob, blank bool, err error) {
				if blank = len(bytes.TrimSpace(text)) == 0; !blank {
					j, err = readLine(text, to)
				}
				return j, blank, err
			}
			if err := p.start(in, skip); err != nil {
				return err
			}
			if r.args[0] != "-" {
				if p.bookmark, err = newBookmark(r.args[0], r.asked, skip); err != nil {
					r.note("the position is not remembered: %v", err)
				}
			}
			return p.all()
		},
	}
}

// longestLine returns the length of the longest line of a job, by the largest body: JSON writes
// some bytes as six.
func longestLine(body int64) int64 { return 6*body + 1<<16 }

// readLine reads the job of a line; to replaces its tube.
func readLine(text []byte, to string) (admin.LineJob, error) {
	j, err := admin.ParseLine(text, priDefault)
	if p, ok := errors.AsType[*admin.Problem](err); ok {
		where := ""
		if p.Field != "" {
			where = "the member " + p.Field + ": "
		}
		return j, client.Errorf(client.Usage, "%s%s: %s", where, p.Detail, p.Remedy)
	}
	if to != "" {
		j.Tube = to
	}
	if err == nil && j.Tube == "" {
		err = client.Errorf(client.Usage, "it has no tube: give one by --to")
	}
	return j, err
}

// imported refuses a file that was imported before, completely or in part, into any server.
func (a *App) imported(file string) error {
	m, found, err := readBookmark(file)
	switch {
	case err != nil:
		return client.Errorf(client.System, "the position in %s cannot be read: %v: delete %s%s if it was never imported", file, err, file, bookmarkSuffix)
	case !found || m.Uncertain+m.Lines == 0:
		return nil
	case m.Uncertain == 0:
		return client.Errorf(client.Unconfirmed, "%s was imported into %s, as far as line %d. To continue after line %d use --skip %d; to put all of it again, or into another server, use --skip 0.",
			file, m.Server, m.Lines, m.Lines, m.Lines)
	}
	elsewhere := ""
	if a.asked != m.Server {
		elsewhere = " To put all of it into " + a.asked + " use --skip 0."
	}
	return client.Errorf(client.Unconfirmed, "%s is being imported into %s, or that was cut off: %s. %s%s",
		file, m.Server, which(m.Lines+1, m.Uncertain), retrying(m.Lines+1, m.Uncertain), elsewhere)
}

// bookmarkSuffix ends the name of a bookmark, after the name of the imported file.
const bookmarkSuffix = ".imported"

// A mark is the position in a file that is being imported.
type mark struct {
	Lines     uint64 `json:"lines"`               // number of first lines that were put
	Uncertain uint64 `json:"uncertain,omitempty"` // number of lines after these that may have been put
	Server    string `json:"server"`              // as given to --server

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

// A bookmark is the file next to an imported file that holds the position. It is written
// before and after each batch, without a sync: it survives a crash of the program, not a power cut. A nil one does
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
	b := &bookmark{f, mark{Server: server, Size: s.Size(), Modified: s.ModTime()}}
	if err := b.at(lines, 0); err != nil {
		f.Close()
		return nil, err
	}
	return b, nil
}

// at moves the position. The next uncertain lines may have been put.
func (b *bookmark) at(lines, uncertain uint64) error {
	if b == nil {
		return nil
	}
	b.mark.Lines, b.mark.Uncertain = lines, uncertain
	text, err := json.Marshal(b.mark)
	if err != nil {
		return err
	}
	// One call overwrites the old mark, which is longer by a few digits at most.
	_, err = b.file.WriteAt(fmt.Appendf(text, "\n%*s\n", markSpace, ""), 0)
	return err
}

// markSpace is the largest difference of the lengths of two marks of a file.
const markSpace = 64

// end closes the bookmark at a position.
func (b *bookmark) end(lines, uncertain uint64) error {
	if b == nil {
		return nil
	}
	return errors.Join(b.at(lines, uncertain), b.file.Close())
}
