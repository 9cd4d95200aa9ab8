package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/pflag"

	"polystalk/cmd/internal/program"
	"polystalk/cmd/polystalk/client"
)

// findBeanstalk returns the server for a verb that reserves jobs, and how to connect to it.
func (a *App) findBeanstalk(ctx context.Context) (client.Target, client.Options, error) {
	t, err := a.find(ctx, client.BeanstalkPlaces)
	if err == nil && t.Base != nil {
		err = client.Errorf(client.Usage, "%s speaks HTTP, by which no job can be reserved: give the server's -l, as in --server beanstalk://127.0.0.1:11300 or beanstalk+unix:PATH", t.Name)
	}
	if err != nil {
		return t, client.Options{}, err
	}
	o, err := a.options()
	return t, o, err
}

func (a *App) reserveVerb() verb {
	var (
		keep, raw bool
		wait      string
	)
	return verb{
		use: "reserve TUBE...", short: "write the next job of some tubes to standard output, and delete it",
		long: `Waits for a job, writes the exact bytes of its body, and then deletes the job. A terminal gets
only text, unless --raw is given. With -o json, shows the id, the tube and the body. Exit
code 2: there was no job. The server may be any that speaks beanstalkd's protocol.`,
		examples: "polystalk reserve mail > file\npolystalk reserve mail news --wait 0 -o json",
		flags: func(fs *pflag.FlagSet) {
			fs.BoolVar(&keep, "keep", false, "release the job instead of deleting it")
			fs.BoolVar(&raw, "raw", false, "write any bytes to a terminal")
			fs.StringVar(&wait, "wait", "", "wait at most this time, such as 90s; 0: do not wait; default: until there is a job")
		},
		reads: true, // an interrupt changes nothing
		local: func(r *run) error {
			seconds, err := readSeconds("--wait", wait)
			if err != nil {
				return err
			}
			if r.printer.Format == "name" && !keep {
				return r.usagef("-o name would delete the job without its body: give --keep, or another -o")
			}
			t, o, err := r.findBeanstalk(r.ctx)
			if err != nil {
				return err
			}
			w, err := client.DialWorker(r.ctx, t, o, r.args)
			if err != nil {
				return err
			}
			defer w.Close() // after an error, the server makes the job ready again
			var j *client.Job
			for left := time.Duration(seconds) * time.Second; ; left -= reserveTurn {
				turn := reserveTurn
				if r.changed("wait") {
					turn = min(max(left, 0), reserveTurn)
				}
				if j, err = w.Reserve(r.ctx, turn); err != nil {
					return err
				}
				if j != nil || r.changed("wait") && left <= reserveTurn {
					break
				}
			}
			if j == nil {
				return client.Errorf(client.Nothing, "there is no job: polystalk tubes shows where jobs are")
			}
			if err = r.showReserved(j, raw); err != nil {
				if _, known := errors.AsType[*client.Error](err); !known {
					err = client.Errorf(client.NotDone, "job %d could not be written, and is ready again: %v", j.ID, err)
				}
				return err
			}
			end := w.Delete
			if keep {
				end = func(j *client.Job) (bool, error) { return w.Release(j, 0) }
			}
			lost, err := end(j)
			if lost {
				err = client.Errorf(client.NotDone, "job %d was written, but its reservation has ended, so another worker may get it: raise its time to run", j.ID)
			}
			return err
		},
	}
}

// showReserved writes a job completely.
func (r *run) showReserved(j *client.Job, raw bool) error {
	if r.printer.IsTable() {
		return r.writeBody(j.Body, raw)
	}
	document, err := j.Document()
	if err == nil {
		err = r.printer.Show(document, client.View{Name: "id"})
	}
	if err == nil {
		err = r.out.Flush()
	}
	return err
}

// writeBody writes a body past r.out, which would escape it.
func (a *App) writeBody(body []byte, raw bool) error {
	if a.Screens.Out && !raw && !program.IsText(body) {
		return client.Errorf(client.Usage, "the body is not text: give --raw to write it to the terminal anyway, or > FILE")
	}
	_, err := a.Out.Write(body)
	return err
}
