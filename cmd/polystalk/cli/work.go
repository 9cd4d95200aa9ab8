package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"polystalk/cmd/polystalk/client"
)

// exitAgain is EX_TEMPFAIL of sysexits.h: the command asks to run the job again.
const exitAgain = 75

const (
	concurrencyMax = 1000
	reserveTurn    = 30 * time.Second // in one reserve, so that a dead server is noticed
	reconnectMost  = 5 * time.Second  // between two attempts to connect again
	backoffMost    = time.Hour
)

// A worker runs a command for each job.
type worker struct {
	*run
	target  client.Target
	how     client.Options
	tubes   []string
	command []string

	concurrency   int
	failed        string // what to do with a job when its command fails
	backoff, idle string // --backoff and --idle before read
	delay         time.Duration
	idleTime      time.Duration // 0: never end
	tries         uint64        // 0: no limit

	stop   context.CancelCauseFunc // ends all slots, after their jobs
	starts chan func()             // run by one thread

	mu   sync.Mutex // guards the rest, and notes
	busy int        // running commands
	cut  int        // slots that could not use the server when they last tried
	last time.Time  // the end of the last job, or of the last outage
	down outage     // of the server, while a slot is cut off
}

func (a *App) workVerb() verb {
	w := &worker{starts: make(chan func())}
	return verb{
		use: "work TUBE...", short: "run a command for each job",
		long: `Runs the command after -- for each job of the tubes, with the body on standard input.
POLYSTALK_JOB_ID, POLYSTALK_JOB_TUBE and POLYSTALK_JOB_RESERVES are in its environment.
Its exit code decides what happens to the job:

  0      the job is deleted
  75     the job is released, with the delay --backoff
  other  the job is buried, or with --failed release released

A job is touched at half of its time to run, so a command may take long. After SIGTERM or
Ctrl-C, running commands end first. After a second signal their jobs are ready again. On Linux
it also ends the commands, but not the programs that they have started. The server may be any
that speaks beanstalkd's protocol.`,
		examples: `polystalk work mail -- ./send-mail
polystalk work thumbnails --concurrency 4 --backoff 10s -- sh -c 'convert - "out/$POLYSTALK_JOB_ID.png"'`,
		flags: func(fs *pflag.FlagSet) {
			fs.IntVar(&w.concurrency, "concurrency", 1, "run this number of commands at a time")
			fs.StringVar(&w.backoff, "backoff", "1s", "delay of the first release of a job; each release doubles it, up to an hour")
			fs.StringVar(&w.failed, "failed", "bury", "what to do with a job when its command fails: bury or release")
			fs.Uint64Var(&w.tries, "tries", 0, "bury a job instead of releasing it after this number of reserves; 0: never")
			fs.StringVar(&w.idle, "idle", "", "end when there was no job for this time; default: never")
		},
		adjust: func(c *cobra.Command) {
			c.Use, c.DisableFlagsInUseLine = "work TUBE... -- COMMAND [ARG...]", true
			c.Args = func(cmd *cobra.Command, args []string) error {
				n := cmd.ArgsLenAtDash()
				missing := ""
				switch {
				case n < 0 || n == len(args):
					missing = "COMMAND"
				case n == 0:
					missing = "TUBE"
				default:
					w.tubes, w.command = args[:n], args[n:]
					return nil
				}
				return client.Errorf(client.Usage, "work: %s is missing; usage: %s", missing, cmd.UseLine())
			}
		},
		local: func(r *run) error {
			w.run = r
			return w.work()
		},
	}
}

// check reads the flags.
func (w *worker) check() error {
	switch {
	case w.concurrency < 1 || w.concurrency > concurrencyMax:
		return w.usagef("--concurrency is %d: give a number from 1 to %d", w.concurrency, concurrencyMax)
	case w.failed != "bury" && w.failed != "release":
		return w.usagef("--failed %q is unknown: give bury or release", w.failed)
	}
	seconds, err := readSeconds("--backoff", w.backoff)
	if err != nil {
		return err
	}
	w.delay = time.Duration(seconds) * time.Second
	if w.idle != "" {
		if w.idleTime, err = readTime("--idle", w.idle); err != nil {
			return err
		}
		if w.idleTime <= 0 {
			return w.usagef("--idle is %v: give a time such as 10s", w.idleTime)
		}
	}
	if _, err := exec.LookPath(w.command[0]); err != nil {
		return w.usagef("the command cannot be run: %v: give a program that exists, after --", err)
	}
	w.target, w.how, err = w.findBeanstalk(w.ctx)
	return err
}

// work runs slots until a signal, or until there is no job for long. Each slot has a connection,
// since a connection that waits in a reserve takes no other command.
func (w *worker) work() error {
	if err := w.check(); err != nil {
		return err
	}
	// A server that cannot be reached at first is a mistake; later it is a restart.
	first, err := client.DialWorker(w.ctx, w.target, w.how, w.tubes)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(w.ctx)
	defer stop(nil)
	defer context.AfterFunc(w.ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.busy > 0 {
			w.note("waiting for the end of %s; another signal makes their jobs ready again at once", counted(uint64(w.busy), "command"))
		}
	})()
	w.stop, w.last = stop, time.Now()
	go w.start()
	defer close(w.starts)
	var all sync.WaitGroup
	for i := range w.concurrency {
		c := first
		if i > 0 {
			c = nil
		}
		all.Go(func() { w.slot(ctx, c) })
	}
	all.Wait()
	if w.ctx.Err() != nil {
		return nil
	}
	if err := context.Cause(ctx); err != errIdle {
		return err
	}
	return nil
}

var errIdle = errors.New("there was no job for a while")

// start runs functions that start commands. On Linux a command is killed with its thread, so the
// thread must last.
func (w *worker) start() {
	runtime.LockOSThread()
	for f := range w.starts {
		f()
	}
}

// slot runs one command at a time until ctx ends. c is nil if it is not connected yet.
func (w *worker) slot(ctx context.Context, c *client.Worker) {
	pause := time.Duration(0)
	for ctx.Err() == nil {
		var err error
		if c == nil {
			c, err = client.DialWorker(ctx, w.target, w.how, w.tubes)
		}
		if err == nil {
			err = w.next(ctx, c)
		}
		w.reached(ctx, pause > 0, err)
		if err == nil {
			pause = 0
			continue
		}
		if c != nil {
			c.Close()
			c = nil
		}
		pause = min(max(2*pause, 100*time.Millisecond), reconnectMost)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	if c != nil {
		c.Close()
	}
}

// reached records that a slot could use the server, or why not. cut reports that the slot's last
// attempt has failed.
func (w *worker) reached(ctx context.Context, cut bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	switch {
	case err != nil:
		w.last = time.Now()
		if !cut {
			w.cut++
		}
	case cut:
		w.cut--
	}
	if err != nil || w.cut == 0 {
		w.down.note(w.App, w.target.Name, err)
	}
}

// An outage records whether the last attempt to use a server has failed.
type outage struct{ down bool }

// note records an attempt. It notes only changes.
func (o *outage) note(a *App, server string, err error) {
	was := o.down
	o.down = err != nil
	switch {
	case o.down && !was:
		a.note("%v; it is asked again until it answers", err)
	case was && !o.down:
		a.note("%s answers again", server)
	}
}

// say writes a note from any goroutine.
func (w *worker) say(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note(format, args...)
}

// next waits for a job and runs its command. It returns an error if the connection is not usable.
func (w *worker) next(ctx context.Context, c *client.Worker) error {
	turn := reserveTurn
	if w.idleTime > 0 {
		turn = min(turn, max(time.Second, w.idleTime))
	}
	j, err := c.Reserve(ctx, turn)
	if err != nil {
		return err
	}
	w.mu.Lock()
	if j == nil {
		idle := w.idleTime > 0 && w.busy == 0 && time.Since(w.last) >= w.idleTime
		w.mu.Unlock()
		if idle {
			w.stop(errIdle)
		}
		return nil
	}
	w.busy++
	w.mu.Unlock()
	err = w.runJob(c, j)
	w.mu.Lock()
	w.busy--
	w.last = time.Now()
	w.mu.Unlock()
	return err
}

// runJob runs the command and ends the job.
func (w *worker) runJob(c *client.Worker, j *client.Job) error {
	code, err := w.execute(c, j)
	if errors.Is(err, errNotStarted) {
		// The job is all right: another worker may run it.
		w.stop(client.Errorf(client.System, "%v: job %d is ready again", err, j.ID))
		_, err = c.Release(j, 0)
		return err
	}
	var lost bool
	again := code == exitAgain || w.failed == "release"
	switch {
	case err != nil: // the connection has ended during the command
	case code == 0:
		lost, err = c.Delete(j)
	case again && (w.tries == 0 || j.Reserves < w.tries):
		lost, err = c.Release(j, w.backoffOf(j))
	default:
		lost, err = c.Bury(j)
	}
	switch {
	case err != nil:
		w.say("job %d: the connection is lost, so the job runs again", j.ID)
	case lost:
		w.say("job %d: its reservation has ended before the command, so the job may run again", j.ID)
	}
	return err
}

// backoffOf returns the delay of the next release of a job.
func (w *worker) backoffOf(j *client.Job) time.Duration {
	if w.delay >= backoffMost {
		return w.delay
	}
	return min(w.delay<<min(j.Releases, 12), backoffMost) // 2^12 seconds are above an hour
}

var (
	errNotStarted = errors.New("the command cannot be started")
	errLate       = errors.New("another worker may have the job")
)

// execute runs the command. It touches the job meanwhile, also while other commands start. An error
// other than errNotStarted comes from the connection; the command has ended nevertheless.
func (w *worker) execute(c *client.Worker, j *client.Job) (code int, err error) {
	cmd := exec.Command(w.command[0], w.command[1:]...)
	cmd.Env = append(os.Environ(),
		"POLYSTALK_JOB_ID="+strconv.FormatUint(j.ID, 10), "POLYSTALK_JOB_TUBE="+j.Tube, "POLYSTALK_JOB_RESERVES="+strconv.FormatUint(j.Reserves, 10))
	cmd.Stdout, cmd.Stderr = w.Out, w.Err // files, so that nothing waits for a daemon that keeps them open
	cmd.SysProcAttr = apart()
	touch := time.NewTicker(max(j.TTR, time.Second) / 2)
	defer touch.Stop()
	in, err := input(j.Body)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errNotStarted, err)
	}
	j.Body, cmd.Stdin = nil, in // the command may take long
	var late atomic.Bool
	ended := make(chan error, 1)
	go func() {
		started := make(chan error)
		w.starts <- func() {
			if late.Load() {
				started <- errLate
			} else {
				started <- cmd.Start()
			}
		}
		err := <-started
		in.Close()
		if err == nil {
			err = cmd.Wait()
		}
		ended <- err
	}()
	for {
		select {
		case failure := <-ended:
			if cmd.Process == nil && failure != errLate {
				return 0, fmt.Errorf("%w: %w", errNotStarted, failure)
			}
			code := cmd.ProcessState.ExitCode() // -1 after a signal, or if it was late
			if code != 0 && code != exitAgain && failure != errLate {
				w.say("job %d: the command has failed: %v: %s", j.ID, failure, map[bool]string{false: "it is buried", true: "it is released"}[w.failed == "release"])
			}
			return code, err
		case <-touch.C:
			if err == nil {
				var lost bool
				lost, err = c.Touch(j)
				late.Store(lost || err != nil)
			}
		}
	}
}

// input returns a file without a name that holds a body. Through a pipe a command would get only a
// part of the body if this program is killed, and would take that part for the whole.
func input(body []byte) (*os.File, error) {
	f, err := nameless()
	if err != nil {
		return nil, err
	}
	if _, err = f.Write(body); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
	}
	return f, err
}
