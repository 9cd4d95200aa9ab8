package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"polystalk/cmd/polystalk/client"
	"polystalk/codec/admin"
)

// priDefault is the first priority that is not urgent, so that a job that is put by hand does not
// get ahead of all others.
const priDefault = 1024

// A newJob is a job to be put.
type newJob struct {
	pri, delay, ttr uint32 // delay and ttr in seconds
	body            []byte
	large           *io.SectionReader // the body, if it is not in memory
}

// put puts a job and returns its id.
func put(ctx context.Context, s client.Server, tube string, j newJob) (uint64, error) {
	query := url.Values{}
	for name, n := range map[string]uint32{"pri": j.pri, "delay": j.delay, "ttr": j.ttr} {
		query.Set(name, strconv.FormatUint(uint64(n), 10))
	}
	q := client.Request{Method: "POST", Path: "/tubes/{tube}/jobs", Tube: tube, Query: query, Octets: j.body, Large: j.large}
	if q.Octets == nil {
		q.Octets = []byte{}
	}
	a, err := s.Ask(ctx, q)
	var done admin.Put
	if err == nil {
		err = a.Read(&done)
	}
	return done.ID, err
}

func putDocument(id uint64) []byte {
	b, _ := json.Marshal(admin.Put{ID: id}) // a number does not fail
	return b
}

func (a *App) putVerb() verb {
	var (
		job        newJob
		delay, ttr string
		body       string
		lines      bool
	)
	return verb{
		use: "put TUBE [FILE]", short: "put a job, or one for each line",
		long: `The body is the content of FILE byte for byte; without FILE or with -, of standard input.
Shows the id of the job.`,
		examples: "polystalk put mail --body hello\npolystalk put mail file --pri 10 --delay 1h\nprintf 'one\\ntwo\\n' | polystalk put mail --lines",
		flags: func(fs *pflag.FlagSet) {
			a.pathFlag(fs)
			fs.Uint32Var(&job.pri, "pri", priDefault, "priority: the smallest first; below 1024 is urgent")
			fs.StringVar(&delay, "delay", "0", "time until the job is ready, such as 90s or 12h")
			fs.StringVar(&ttr, "ttr", fmt.Sprint(admin.DefaultTTR), "time to run: how long a worker may take, such as 90s or 12h")
			fs.StringVar(&body, "body", "", "the body itself")
			fs.BoolVar(&lines, "lines", false, "put a job for each line, without the line end; stop at the first that fails")
		},
		do: func(r *run) error {
			name, err := r.tubeName(r.args[0])
			if err != nil {
				return err
			}
			if job.delay, err = readSeconds("--delay", delay); err != nil {
				return err
			}
			if job.ttr, err = readSeconds("--ttr", ttr); err != nil {
				return err
			}
			var in io.ReadCloser
			switch {
			case r.changed("body") && len(r.args) > 1:
				return client.Errorf(client.Usage, "put: there are a FILE and a --body: give one of them")
			case r.changed("body"):
				in = io.NopCloser(strings.NewReader(body))
			case len(r.args) > 1:
				in, err = r.open(r.args[1], "give the file that holds the body, or the body itself by --body")
			default:
				if r.Screens.In {
					fmt.Fprintln(r.Err, "polystalk: type the body, and end it with Ctrl-D; or give it by --body")
				}
				in, err = r.open("-", "")
			}
			if err != nil {
				return err
			}
			defer in.Close()
			if lines {
				return r.putLines(name, job, in)
			}
			b := bodies{ctx: r.ctx, server: r.server}
			if err := b.read(in, &job); err != nil {
				return err
			}
			id, err := put(r.ctx, r.server, name, job)
			if err != nil {
				return err
			}
			return r.printer.Show(putDocument(id), client.PutView)
		},
	}
}

// A bodies reads bodies up to the size that the server takes.
type bodies struct {
	ctx    context.Context
	server client.Server
	limit  int64 // in bytes; 0: not known yet
}

// Sizes of bodies in bytes: what a server takes by default, and at most.
// Source: beanstalkd doc/beanstalkd.ronn, -z.
const (
	smallMax = 65535
	largeMax = 1 << 30
)

// most returns the largest size. It asks the server, so it is called for bodies above smallMax only.
func (b *bodies) most() (int64, error) {
	if b.limit > 0 {
		return b.limit, nil
	}
	a, err := b.server.Ask(b.ctx, client.Request{Method: "GET", Path: "/server"})
	if err != nil {
		return 0, err
	}
	var v struct {
		Max int64 `json:"max_job_size_bytes"`
	}
	_ = json.Unmarshal(a.Document, &v) // a server that does not tell may take anything
	if b.limit = v.Max; b.limit <= 0 {
		b.limit = largeMax
	}
	return b.limit, nil
}

func tooLarge(what, size string, most int64) error {
	return client.Errorf(client.Usage, "%s %s bytes, and the server takes %d: send less, or raise its -z", what, size, most)
}

// read reads a body into j. A large one stays in its file, or goes to one, to save memory.
func (b *bodies) read(in io.Reader, j *newJob) error {
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
			j.large = io.NewSectionReader(f, at, s.Size()-at)
			return nil
		}
	}
	body, err := io.ReadAll(io.LimitReader(in, smallMax+1))
	if err != nil {
		return client.Errorf(client.System, "the body cannot be read: %v", err)
	}
	if len(body) <= smallMax {
		j.body = body
		return nil
	}
	most, err := b.most()
	if err != nil {
		return err
	}
	f, size, err := spool(io.MultiReader(bytes.NewReader(body), io.LimitReader(in, most+1-int64(len(body)))))
	if err != nil {
		return client.Errorf(client.System, "the body cannot be read, and kept in a file until it is sent: %v", err)
	}
	if size > most {
		f.Close()
		return tooLarge("the body has more than", strconv.FormatInt(most, 10), most)
	}
	j.large = io.NewSectionReader(f, 0, size)
	return nil
}

// spool copies in to a file without a name, which ends with the program.
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

// line reads a line with its line end. At the end of the input it is empty.
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
			return nil, client.Errorf(client.System, "the lines cannot be read: %v", err)
		}
	}
}

// putLines puts a job for each line, one after the other, so that ids have the order of the lines.
func (r *run) putLines(tube string, j newJob, in io.Reader) error {
	buffered := bufio.NewReaderSize(in, 1<<16)
	l := r.printer.List(client.PutsView)
	b := bodies{ctx: r.ctx, server: r.server}
	for {
		line, err := b.line(buffered)
		if err == nil && len(line) == 0 {
			return l.Close()
		}
		var id uint64
		if err == nil {
			j.body = bytes.TrimSuffix(line, []byte("\n"))
			id, err = put(r.ctx, r.server, tube, j)
		}
		if err != nil && l.N > 0 {
			return client.Errorf(client.NotDone, "%d jobs were put; line %d was not: %v", l.N, l.N+1, err)
		}
		if err != nil {
			return err
		}
		if err := l.Page([]byte(`{"jobs":[` + string(putDocument(id)) + `]}`)); err != nil {
			return err
		}
	}
}
