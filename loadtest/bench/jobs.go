package bench

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"sync"
)

// peers are protocols of other servers, which only the workload job drives. A target names its
// protocol: redis:redis-server --port {port}.
var peers = map[string]*protocol{
	"redis": {name: "redis", ask: "INFO server\r\n", version: regexp.MustCompile(`redis_version:(\S+)\r\n`),
		workloads: map[string]spec{"job": {setup: setupJobs(newRedisJobs)}}},
	"nats": {name: "nats", version: regexp.MustCompile(`"version":"([^"]+)"`),
		workloads: map[string]spec{"job": {setup: setupJobs(newNATSJobs)}}},
	"amqp": {name: "amqp", ask: amqpGreeting, version: regexp.MustCompile(`(?s)\x07versionS....([0-9.]+)`),
		workloads: map[string]spec{"job": {setup: setupJobs(newAMQPJobs)}}},
}

// A jobber is a connection that works on a queue. All connections of a load share the queue.
type jobber interface {
	// job puts a job, takes the oldest one, and acknowledges it. It returns when the server has
	// answered each step, if its protocol has an answer.
	job() error
	begin() error // before the jobs of a phase
	end() error   // after them: gives back a job that was sent unasked
}

// asking is the part of a jobber that is sent no job unasked.
type asking struct{}

func (asking) begin() error { return nil }
func (asking) end() error   { return nil }

// setupJobs returns the setup of workload job. connect prepares a connection, and creates the queue
// if it does not exist.
func setupJobs(connect func(e *env, c *Conn, i int) (jobber, error)) func(ctx context.Context, e *env) (runner, error) {
	return func(ctx context.Context, e *env) (runner, error) {
		all := make([]jobber, e.Load.Conns)
		for i := range all {
			c, err := e.open(ctx)
			if err == nil {
				all[i], err = connect(e, c, i)
			}
			if err != nil {
				return nil, err
			}
		}
		return func(ph *phase) error { return ph.jobs(all) }, nil
	}
}

// jobs gives each jobber a goroutine and a lane until the phase is over. A job is one operation. At
// any time there are as many jobs as connections that wait for one, so none waits for ever.
func (ph *phase) jobs(all []jobber) error {
	var wg sync.WaitGroup
	for i, j := range all {
		l, err := ph.lane(i, len(all), true)
		if err != nil {
			ph.fail(err)
			break
		}
		wg.Go(func() {
			defer l.end()
			ph.fail(ph.work(l, j))
		})
	}
	wg.Wait()
	return ph.failure()
}

func (ph *phase) work(l *lane, j jobber) error {
	err := j.begin()
	for err == nil && l.more() && ph.ctx.Err() == nil {
		var from int64
		if from, err = l.begin(1); err == nil {
			err = j.job()
			l.answered(from, Now())
		}
	}
	if err != nil {
		return err
	}
	return j.end()
}

// await reads until parse has a whole message. parse returns the length of the message at the
// start of b; 0: it is incomplete.
func (c *Conn) await(parse func(b []byte) (int, error)) error {
	for {
		n, err := parse(c.unread())
		if err != nil {
			return err
		}
		if c.lo += n; n > 0 {
			return nil
		}
		if err := c.receive(c.hi - c.lo + 1); err != nil {
			return err
		}
	}
}

// checkJob checks the body of a job. All jobs have the same.
func (c *Conn) checkJob(body []byte) error {
	if !bytes.Equal(body, c.body) {
		return fmt.Errorf("a job came back with another body: expected %.40q…, got %.40q…", c.body, body)
	}
	return nil
}

// beanJobs works with put, reserve and delete.
type beanJobs struct {
	*Conn
	asking
}

func newBeanJobs(e *env, c *Conn, i int) (jobber, error) {
	return beanJobs{Conn: c}, c.own(e.tubeName("job", 0))
}

func (b beanJobs) job() error {
	b.put(jobPri, 0, 0)
	err := b.exchange()
	if err == nil {
		err = b.expect("put", "INSERTED")
	}
	if err == nil {
		err = b.command("reserve", "RESERVED")
	}
	if err == nil {
		err = b.expectJob(0, 0)
	}
	if err != nil {
		return err
	}
	b.sayJob("delete", b.Reply.Num)
	if err := b.exchange(); err != nil {
		return err
	}
	return b.expect("delete", "DELETED")
}

// redisJobs works with LPUSH, LMOVE and LREM: the reliable queue of Redis's documentation. The
// connection has a list of its own for the job that it works.
type redisJobs struct {
	*Conn
	asking
	push, move, remove string
	reply              []byte // the last reply: a body, or a number
}

func newRedisJobs(e *env, c *Conn, i int) (jobber, error) {
	body, working := string(c.body), fmt.Sprint("lt.working.", i)
	return &redisJobs{Conn: c, push: resp("LPUSH", "lt.jobs", body),
		move: resp("LMOVE", "lt.jobs", working, "RIGHT", "LEFT"), remove: resp("LREM", working, "1", body)}, nil
}

// resp returns a command in the encoding of Redis.
func resp(args ...string) string {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(a), a)
	}
	return string(b)
}

func (r *redisJobs) job() error {
	err := r.ask(r.push, ':')
	if err == nil {
		err = r.ask(r.move, '$')
	}
	if err == nil {
		err = r.checkJob(r.reply)
	}
	if err == nil {
		err = r.ask(r.remove, ':')
	}
	if err == nil && string(r.reply) != "1" {
		err = fmt.Errorf("LREM removed %q jobs, want 1", r.reply)
	}
	return err
}

// ask sends a command and reads a reply of that kind.
func (r *redisJobs) ask(command string, kind byte) error {
	r.Out = append(r.Out, command...)
	if err := r.Conn.ask(); err != nil {
		return err
	}
	return r.await(func(b []byte) (int, error) {
		end := bytes.IndexByte(b, '\n') + 1
		if end < 4 {
			return 0, nil
		}
		r.reply = b[1 : end-2]
		if b[0] != kind || r.reply[0] == '-' { // $-1: there is no job
			return 0, fmt.Errorf("wrong reply of Redis: expected %q, got %q", kind, b[:end-2])
		}
		if kind == ':' {
			return end, nil
		}
		size, ok := parseUint(r.reply, true)
		if !ok || size > maxBody {
			return 0, fmt.Errorf("%w: %.60q", ErrMalformed, b)
		}
		total := end + int(size) + 2
		if len(b) < total {
			return 0, nil
		}
		r.reply = b[end : total-2]
		return total, nil
	})
}
