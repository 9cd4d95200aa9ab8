package conversation

import (
	"fmt"
	"slices"
	"strings"
)

// A gearmanJob is what a history knows about a job, from gearmand's answers.
type gearmanJob struct {
	handle, function, unique string
	body                     string // for a job with the unique "-"
	class                    int    // 0 high, 1 normal, 2 low
	background               bool   // it was submitted in the background
	joined                   bool   // only a later submission was in the background
	delayed                  bool   // it is not due yet
	holder                   int    // the connection that runs it, or -1
	waiting                  map[int]int
	ignored                  bool // on gearmand all waiting clients have left once
	cancelled                bool
	silent                   bool // it was cancelled while it ran: no report may follow
	ghost                    bool // gearmand still lists it, but will not run it
	gone                     bool
}

// wanted reports whether a client waits for the job, or it is in the background.
func (j *gearmanJob) wanted(waiting int) bool { return j.background || j.joined || waiting > 0 }

// A gearmanConn is what a history knows about a connection.
type gearmanConn struct {
	open      bool
	abilities []string
	drowsy    bool     // it may sleep: it has sent PRE_SLEEP since its last GRAB_JOB
	grabbed   bool     // one of the requests that are being pipelined is a GRAB_JOB
	excepted  []string // jobs that it has sent WORK_EXCEPTION for
	rest      string   // the rest of a request that was sent in part
}

// gearmanState is what a random history knows about the state of both servers. Its methods decide
// which requests it may send: none for which gearmand is known to behave in another way than this
// server. The comment of each method explains the difference.
type gearmanState struct {
	conns   []gearmanConn
	jobs    []*gearmanJob
	limited map[string]bool // functions that may have a limit
	few     bool            // not all sleepers are woken for a job
}

// with reports whether there is a job of the function for which cond holds.
func (k *gearmanState) with(function string, cond func(*gearmanJob) bool) bool {
	return slices.ContainsFunc(k.jobs, func(j *gearmanJob) bool { return !j.gone && j.function == function && cond(j) })
}

func (k *gearmanState) haunted(function string) bool {
	return k.with(function, func(j *gearmanJob) bool { return j.ghost })
}

func (k *gearmanState) delayed(function string) bool {
	return k.with(function, func(j *gearmanJob) bool { return j.delayed })
}

// sleepers reports whether a connection other than except may sleep until there is a job of
// the function.
func (k *gearmanState) sleepers(function string, except int) bool {
	for i, c := range k.conns {
		if i != except && c.open && c.drowsy && slices.Contains(c.abilities, function) {
			return true
		}
	}
	return false
}

func (k *gearmanState) find(is func(j *gearmanJob) bool) *gearmanJob {
	if i := slices.IndexFunc(k.jobs, func(j *gearmanJob) bool { return !j.gone && is(j) }); i >= 0 {
		return k.jobs[i]
	}
	return nil
}

func (k *gearmanState) job(handle string) *gearmanJob {
	return k.find(func(j *gearmanJob) bool { return j.handle == handle })
}

// losesMany reports whether i runs several jobs of one function and class: if they are lost
// together, their order is free.
func (k *gearmanState) losesMany(i int, functions ...string) bool {
	seen := map[string]bool{}
	for _, j := range k.jobs {
		if j.gone || j.holder != i || !slices.Contains(functions, j.function) {
			continue
		}
		queue := fmt.Sprint(j.class, j.function)
		if seen[queue] {
			return true
		}
		seen[queue] = true
	}
	return false
}

// leavesWoken reports whether connection i may be a worker that was woken for a job of the function
// while others sleep on (--worker-wakeup). If such a worker disconnects or gives back the job,
// gearmand wakes no other worker for it. polystalkd does.
func (k *gearmanState) leavesWoken(i int, function string) bool {
	return k.few && (k.sleepers(function, i) || k.conns[i].drowsy) && k.with(function, func(j *gearmanJob) bool { return j.holder < 0 || j.holder == i })
}

// mayLose reports whether i may be lost as the worker of a job.
//
// gearmand never runs a job again that was abandoned once, even if it is in the background or
// another client has joined it since (tag I); ours runs it. gearmand queues a job that is no
// longer wanted, and wakes sleepers for it in vain; that it does not run is all that counts.
// Where a job waits for its time gearmand may end the wrong one.
func (k *gearmanState) mayLose(j *gearmanJob, i int, waiting int) bool {
	abandoned := j.ignored || j.cancelled || waiting == 0 && j.waiting[i] > 0
	unwanted := j.cancelled || !j.wanted(waiting)
	return abandoned == unwanted && (!abandoned || !k.sleepers(j.function, i) && !k.delayed(j.function))
}

// mayClose reports whether connection i may be closed.
//
// If all clients that wait for a queued job leave, gearmand drops even a job that is also in
// the background (tag I). Where others wait for their time, it may later end the wrong one.
func (k *gearmanState) mayClose(i int) bool {
	c := &k.conns[i]
	if k.losesMany(i, c.abilities...) || slices.ContainsFunc(c.abilities, func(f string) bool { return k.leavesWoken(i, f) }) {
		return false
	}
	for _, j := range k.jobs {
		if j.gone || j.ghost || j.holder != i && j.waiting[i] == 0 {
			continue
		}
		left := 0
		for c, n := range j.waiting {
			if c != i {
				left += n
			}
		}
		switch {
		case j.holder == i && !k.mayLose(j, i, left):
			return false
		case j.holder < 0 && left == 0 && (j.wanted(0) || k.delayed(j.function)):
			return false
		}
	}
	return true
}

// close updates the state after connection i was closed.
func (k *gearmanState) close(i int) {
	for _, j := range k.jobs {
		if j.waiting[i] > 0 {
			delete(j.waiting, i)
			j.ignored = j.ignored || len(j.waiting) == 0
		}
		if j.holder == i {
			j.holder = -1
		}
	}
	k.conns[i] = gearmanConn{}
}

// mayUnregister reports whether connection i may unregister a function. It may not if it has a job
// of the function and may sleep, because gearmand then wakes it for the job that it returns.
func (k *gearmanState) mayUnregister(i int, function string) bool {
	if k.losesMany(i, function) || k.leavesWoken(i, function) {
		return false
	}
	return !k.with(function, func(j *gearmanJob) bool {
		waiting := 0
		for _, n := range j.waiting {
			waiting += n
		}
		return j.holder == i && (k.conns[i].drowsy || !k.mayLose(j, -1, waiting))
	})
}

func (k *gearmanState) unregister(i int, function string) {
	c := &k.conns[i]
	c.abilities = slices.DeleteFunc(slices.Clone(c.abilities), func(f string) bool { return f == function })
	for _, j := range k.jobs {
		if !j.gone && j.holder == i && j.function == function {
			j.holder = -1
		}
	}
}

// maySubmit reports whether a job may be submitted.
//
// gearmand lets a submission join a job that it is not going to run, and counts such jobs for
// limits (tag I). 1.1.20 wakes sleepers for a job before its time, and starves low jobs
// behind it (tag V).
func (k *gearmanState) maySubmit(job *gearmanJob) bool {
	twin := k.find(func(j *gearmanJob) bool {
		return j.function == job.function && j.unique == job.unique && j.unique != "" && (j.unique != "-" || j.body != "" && j.body == job.body)
	})
	switch {
	case twin != nil:
		return !twin.ghost && !twin.cancelled
	case k.limited[job.function] && k.haunted(job.function):
		return false
	case job.delayed:
		low := func(j *gearmanJob) bool { return j.class == 2 }
		return !k.sleepers(job.function, -1) && !k.with(job.function, low) && !k.haunted(job.function)
	}
	return job.class != 2 || !k.delayed(job.function)
}

// mayPick reports whether i may ask for a job, or whether there is one.
//
// 1.1.20 looks function by function, 2.0.0 priority by priority (tag V): they agree while the
// best jobs of all functions have one priority. Ghosts, and jobs that wait for their time,
// change the turn of functions in 1.1.20.
func (k *gearmanState) mayPick(i int) bool {
	c := &k.conns[i]
	if len(c.abilities) < 2 {
		return true
	}
	common := -1
	for _, f := range c.abilities {
		if k.haunted(f) || k.delayed(f) {
			return false
		}
		for class := range 3 {
			if k.with(f, func(j *gearmanJob) bool { return j.holder < 0 && j.class == class }) {
				if common >= 0 && common != class {
					return false
				}
				common = class
				break
			}
		}
	}
	return true
}

// mayAsk reports whether the status of a job may be asked for, and mayAskUnique whether by
// its unique: gearmand finds jobs so that it is not going to run.
func (k *gearmanState) mayAsk(handle string) bool {
	j := k.job(handle)
	return j == nil || !j.ghost
}

func (k *gearmanState) mayAskUnique(unique string) bool {
	return k.find(func(j *gearmanJob) bool { return j.unique == unique && (j.ghost || j.cancelled) }) == nil
}

// mayCancel reports whether a job may be cancelled: gearmand cancels a ghost again, and a job
// that runs on after it was cancelled (tag I).
func (k *gearmanState) mayCancel(handle string) bool {
	j := k.job(handle)
	return j == nil || !j.cancelled && !j.ghost && (j.holder >= 0 || j.delayed || !k.delayed(j.function))
}

// mayDrop reports whether a function may be dropped: gearmand drops one with waiting jobs,
// and then has dangling ones (tag I).
func (k *gearmanState) mayDrop(function string) bool {
	return k.find(func(j *gearmanJob) bool { return strings.EqualFold(j.function, function) }) == nil
}

// listed updates the state from gearmand's show jobs.
func (k *gearmanState) listed(lines []string) {
	ignored := map[string]bool{}
	for _, line := range lines {
		if f := strings.Split(line, "\t"); len(f) == 4 {
			ignored[f[0]] = f[2] == "1"
		}
	}
	for _, j := range k.jobs {
		is, ok := ignored[j.handle]
		j.gone, j.ghost = !ok, is && j.holder < 0
	}
}

// created updates the state after the JOB_CREATED for a submission of connection i.
func (k *gearmanState) created(i int, job gearmanJob) {
	j := k.job(job.handle)
	if j == nil {
		j = &job
		j.waiting = map[int]int{}
		k.jobs = append(k.jobs, j)
	} else if job.background && !j.background {
		j.joined = true
	}
	if !job.background {
		j.waiting[i]++
	}
}

// assigned updates the state after connection i got a job.
func (k *gearmanState) assigned(i int, handle string) {
	if j := k.job(handle); j != nil {
		j.holder, j.delayed = i, false
	}
}

// exorcise removes unwanted queued jobs from a list of gearmand, which keeps them until a worker
// looks (tag I), and the mark of running ones. A job that was once submitted in the background
// stays a background job (tag I).
func (k *gearmanState) exorcise(list string, lines []string) []string {
	lines = slices.Clone(lines)
	for _, j := range k.jobs {
		at, column := -1, 0
		switch list {
		case "status", "prioritystatus":
			if at = slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, j.function+"\t") }); list == "prioritystatus" {
				column = j.class
			}
		case "show jobs":
			at = slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, j.handle+"\t") })
		case "show unique jobs":
			at = slices.Index(lines, j.unique+"\n")
		}
		if j.gone || at < 0 || !j.ghost && list != "show jobs" {
			continue
		}
		switch list {
		case "status", "prioritystatus": // it is one less
			f := strings.Split(lines[at][len(j.function)+1:], "\t")
			n := 0
			_, _ = fmt.Sscan(f[column], &n) // a number
			f[column] = fmt.Sprint(n - 1)
			lines[at] = j.function + "\t" + strings.Join(f, "\t")
		default:
			if j.ghost {
				lines = slices.Delete(lines, at, at+1)
				continue
			}
			f := strings.Split(lines[at], "\t")
			if f[2] = "0"; j.wanted(0) && !j.cancelled {
				f[3] = "1\n"
			}
			lines[at] = strings.Join(f, "\t")
		}
	}
	return lines
}
