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
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"polystalk/cmd/polystalk/client"
	"polystalk/codec/admin"
)

// priDefault is the first priority that is not urgent, so a job that is put by hand does not
// overtake all others.
const priDefault = 1024

// A newJob is a job to be put.
type newJob struct {
	pri, delay, ttr uint32 // delay and ttr in seconds
	body            []byte
}

// put puts a job and returns its id.
func put(ctx context.Context, s client.Server, tube string, j newJob) (uint64, error) {
	query := url.Values{}
	for name, n := range map[string]uint32{"pri": j.pri, "delay": j.delay, "ttr": j.ttr} {
		query.Set(name, strconv.FormatUint(uint64(n), 10))
	}
	q := client.Request{Method: "POST", Path: "/tubes/{tube}/jobs", Tube: tube, Query: query, Octets: j.body}
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
	b, _ := json.Marshal(admin.Put{ID: id}) // a number cannot fail
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
				return client.Errorf(client.Usage, "put: FILE and --body exclude each other: give one of them")
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
			if job.body, err = r.readBody(in); err != nil {
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

// Sizes of bodies in bytes: the size that every server accepts by default, and the largest
// possible one. Source: beanstalkd doc/beanstalkd.ronn, -z.
const (
	smallMax = 65535
	largeMax = 1 << 30
)

// maxBody returns the size of the largest body that the server accepts, in bytes. It is called
// only for bodies above smallMax, because the server caches the figures it returns for a second
// or two.
func (r *run) maxBody() (int64, error) {
	var v struct {
		Max int64 `json:"max_job_size_bytes"`
	}
	_, err := r.read("/server", "", &v)
	if v.Max <= 0 { // a server that reports no limit may accept any size
		v.Max = largeMax
	}
	return v.Max, err
}

// readBody reads a body up to the size that the server accepts.
func (r *run) readBody(in io.Reader) ([]byte, error) {
	var b bytes.Buffer
	most := int64(smallMax)
	n, err := io.CopyN(&b, in, most+1)
	if n > most {
		if most, err = r.maxBody(); err != nil {
			return nil, err
		}
		_, err = io.CopyN(&b, in, max(most+1-n, 0))
	}
	switch {
	case int64(b.Len()) > most:
		return nil, tooLarge("body", most)
	case err != nil && err != io.EOF:
		return nil, client.Errorf(client.System, "the body cannot be read: %v", err)
	}
	return b.Bytes(), nil
}

func tooLarge(what string, most int64) error {
	return client.Errorf(client.Usage, "the %s has more than %d bytes, which is what the server takes: send less, or raise its -z", what, most)
}

// putLines puts a job for each line, one by one, so the ids have the order of the lines.
func (r *run) putLines(tube string, j newJob, in io.Reader) error {
	most := int64(smallMax)
	l := r.printer.List(client.PutsView)
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, largeMax+2)
	lines.Split(wholeLines)
	for {
		var id uint64
		var err error
		more := lines.Scan()
		if len(lines.Bytes()) > int(most) && most == smallMax {
			if most, err = r.maxBody(); err != nil {
				return err
			}
		}
		switch {
		case !more && lines.Err() == nil:
			return l.Close()
		case !more && errors.Is(lines.Err(), bufio.ErrTooLong), len(lines.Bytes()) > int(most):
			err = tooLarge("line", most)
		case !more:
			err = client.Errorf(client.System, "the lines cannot be read: %v", lines.Err())
		default:
			j.body = lines.Bytes()
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

// wholeLines splits at newlines. Unlike bufio.ScanLines it keeps a carriage return.
func wholeLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}
