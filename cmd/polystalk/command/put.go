package command

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
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
				in, err = a.open(args[1], "give the file that holds the body, or the body itself by --body")
			default:
				if a.Screens.In {
					fmt.Fprintln(a.Err, "polystalk: the body is what is typed until Ctrl-D; --body gives it at once")
				}
				in, err = a.open("-", "")
			}
			if err != nil {
				return err
			}
			defer in.Close()
			if lines {
				return a.putLines(cmd.Context(), q, name, job, in)
			}
			b := bodies{ctx: cmd.Context(), q: q}
			if err := b.read(in, &job); err != nil {
				return err
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

// bodies reads them, no larger ones than the server takes.
type bodies struct {
	ctx   context.Context
	q     queue.Queue
	limit int64 // in bytes; 0: it was not asked for yet
}

// smallMax is what all servers take, unless they were told to take less. It is the limit of
// one that was told nothing. In bytes.
const smallMax = 65535

// largeMax is the largest body that a server can be told to take. In bytes.
// Source: beanstalkd doc/beanstalkd.ronn, -z.
const largeMax = 1 << 30

// most is how large a body may be. Before there is one that is not small, nobody is asked.
func (b *bodies) most() (int64, error) {
	if b.limit > 0 {
		return b.limit, nil
	}
	document, err := b.q.Server(b.ctx)
	if err != nil {
		return 0, err
	}
	var v struct {
		Max int64 `json:"max_job_size_bytes"`
	}
	_ = json.Unmarshal(document, &v) // one that does not tell takes what can be
	if b.limit = v.Max; b.limit <= 0 {
		b.limit = largeMax
	}
	return b.limit, nil
}

func tooLarge(what, size string, most int64) error {
	return fault.New(fault.Usage, "%s %s bytes, and the server takes %d: send less, or raise its -z", what, size, most)
}

// read reads a body into j. One that stands in a file is left there, so that it need not have
// room in memory.
func (b *bodies) read(in io.Reader, j *queue.NewJob) error {
	if f, ok := in.(*os.File); ok {
		at, err := f.Seek(0, io.SeekCurrent)
		if s, bad := f.Stat(); err == nil && bad == nil && s.Mode().IsRegular() && s.Size()-at > smallMax {
			most, err := b.most()
			if err != nil {
				return err
			}
			if size := s.Size() - at; size > most {
				return tooLarge("the body has", strconv.FormatInt(size, 10), most)
			}
			j.Large = io.NewSectionReader(f, at, s.Size()-at)
			return nil
		}
	}
	body, err := io.ReadAll(io.LimitReader(in, smallMax+1))
	if err != nil {
		return fault.New(fault.System, "the body cannot be read: %v", err)
	}
	if len(body) <= smallMax {
		j.Body = body
		return nil
	}
	most, err := b.most()
	if err != nil {
		return err
	}
	f, size, err := spool(io.MultiReader(bytes.NewReader(body), io.LimitReader(in, most+1-int64(len(body)))))
	if err != nil {
		return fault.New(fault.System, "the body cannot be read, and kept in a file until it is sent: %v", err)
	}
	if size > most {
		f.Close()
		return tooLarge("the body has more than", strconv.FormatInt(most, 10), most)
	}
	j.Large = io.NewSectionReader(f, 0, size)
	return nil
}

// spool copies what comes into a file without a name, which is gone with the program.
func spool(in io.Reader) (f *os.File, size int64, err error) {
	if f, err = os.CreateTemp("", "polystalk-"); err != nil {
		return nil, 0, err
	}
	os.Remove(f.Name())
	if size, err = io.Copy(f, in); err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, size, nil
}

// line reads a line, with its end, if there is one. At the end of all it is empty.
func (b *bodies) line(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > smallMax+len("\n") {
			most, failed := b.most()
			if failed != nil {
				return nil, failed
			}
			if int64(len(bytes.TrimSuffix(line, []byte("\n")))) > most {
				return nil, tooLarge("the line has more than", strconv.FormatInt(most, 10), most)
			}
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err == nil, errors.Is(err, io.EOF):
			return line, nil
		default:
			return nil, fault.New(fault.System, "the lines cannot be read: %v", err)
		}
	}
}

// putLines puts a job for each line, one after the other: their ids have the order of the
// lines.
func (a *App) putLines(ctx context.Context, q queue.Queue, tube string, j queue.NewJob, in io.Reader) error {
	r := bufio.NewReaderSize(in, 1<<16)
	l := a.printer.List(views.Puts)
	b := bodies{ctx: ctx, q: q}
	for {
		line, err := b.line(r)
		if err == nil && len(line) == 0 {
			return l.Close()
		}
		var id uint64
		if err == nil {
			j.Body = bytes.TrimSuffix(line, []byte("\n"))
			id, err = q.Put(ctx, tube, j)
		}
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
