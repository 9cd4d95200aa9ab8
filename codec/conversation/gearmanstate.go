package conversation

import (
	"fmt"
	"slices"
	"strings"
)

// A gearmanJob is what a history knows about a job, from gearmand's answers.
type gearmanJob struct {
	handle, function, unique string
	body                     string // of a job whose unique is "-"
	class                    int    // 0 high, 1 normal, 2 low
	background               bool   // it was submitted so
	joined                   bool   // only a later submission was in the background
	delayed                  bool   // its time has not come
	holder                   int    // the connection that runs it, or -1
	waiting                  map[int]int
	ignored                  bool // gearmand: everyone who waited has left, once
	cancelled                bool
	silent                   bool // it was cancelled while it ran: no report may follow
	ghost                    bool // gearmand still lists it, but will not run it
	gone                     bool
}

// A gearmanConn is what a history knows about a connection.
type gearmanConn struct {
	open      bool
	abilities []string
	drowsy    bool     // PRE_SLEEP was sent since the last GRAB_JOB: perhaps it sleeps
	grabbed   bool     // in the requests that are being pipelined
	excepted  []string // what it has sent WORK_EXCEPTION for
	rest      string   // of a request that was sent in part
}

// known is what a history knows about the servers. With it, the player passes
// over what cannot be compared: each rule stands once, in one of the methods
// below.
type gearmanState struct {
	conns   []gearmanConn
	jobs    []*gearmanJob
	limited map[string]bool // functions that may have a limit
	few     bool            // not all sleepers are woken for a job
}

// with reports whether there is a job of the function for which cond holds.
func (k *gearmanState) with(function string, cond func(*gearmanJob) bool) bool {
	return slices.ContainsFunc(k.jobs, func(j *gearmanJob) bool {
		return !j.gone && j.function == function && cond(j)
	})
}

func (k *gearmanState) haunted(function string) bool {
	return k.with(function, func(j *gearmanJob) bool { return j.ghost })
}

func (k *gearmanState) delayed(function string) bool {
	return k.with(function, func(j *gearmanJob) bool { return j.delayed })
}

// sleepers reports whether a connection other than except may sleep until there is
// a job of the function.
func (k *gearmanState) sleepers(function string, except int) bool {
	for i, c := range k.conns {
		if i != except && c.open && c.drowsy && slices.Contains(c.abilities, function) {
			return true
		}
	}
	return false
}

func (k *gearmanState) job(handle string) *gearmanJob {
	for _, j := range k.jobs {
		if j.handle == handle && !j.gone {
			return j
		}
	}
	return nil
}

// twin is the job that a submission would join.
func (k *gearmanState) twin(function, unique, body string) *gearmanJob {
	for _, j := range k.jobs {
		if !j.gone && j.function == function && unique != "" && j.unique == unique && (unique != "-" || body != "" && j.body == body) {
			return j
		}
	}
	return nil
}

// losesMany reports whether i runs several jobs of one queue: if they are lost
// together, their order is free.
func (k *gearmanState) losesMany(i int, functions ...string) bool {
	type queue struct {
		function string
		class    int
	}
	seen := map[queue]bool{}
	for _, j := range k.jobs {
		if j.gone || j.holder != i || !slices.Contains(functions, j.function) {
			continue
		}
		q := queue{j.function, j.class}
		if seen[q] {
			return true
		}
		seen[q] = true
	}
	return false
}

// leavesWoken reports whether i may be the one, of few, that was woken for a job of
// the function. If it leaves, or is woken for the very job that it leaves behind,
// gearmand lets nobody else know; ours does.
func (k *gearmanState) leavesWoken(i int, function string) bool {
	return k.few && (k.sleepers(function, i) || k.conns[i].drowsy) && k.with(function, func(j *gearmanJob) bool { return j.holder < 0 || j.holder == i })
}

// mayLose reports whether i may be lost as the worker of a job.
//
// A job that gearmand has once seen abandoned is never run again, even if it is
// wanted in the background or by somebody who joined it since (tag I);
// ours runs it. One that nobody wants any more is queued again by gearmand, with
// sleepers woken for nothing, where all that is owed is that it is not run; and where
// a job waits for its time gearmand may end the wrong one then.
func (k *gearmanState) mayLose(j *gearmanJob, i int, waiting int) bool {
	abandoned := j.ignored || j.cancelled || waiting == 0 && j.waiting[i] > 0
	unwanted := j.cancelled || !j.background && !j.joined && waiting == 0
	return abandoned == unwanted && (!abandoned || !k.sleepers(j.function, i) && !k.delayed(j.function))
}

// mayClose reports whether connection i may be closed.
//
// If all who wait for a queued job leave, gearmand drops even a job that is also
// wanted in the background (tag I). Where others wait for their time, it
// may later end the wrong one.
func (k *gearmanState) mayClose(i int) bool {
	c := &k.conns[i]
	if k.losesMany(i, c.abilities...) {
		return false
	}
	for _, f := range c.abilities {
		if k.leavesWoken(i, f) {
			return false
		}
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
		case j.holder == i:
			if !k.mayLose(j, i, left) {
				return false
			}
		case j.holder < 0 && left == 0:
			if j.background || j.joined || k.delayed(j.function) {
				return false
			}
		}
	}
	return true
}

// close takes in that connection i has been closed.
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

// mayUnregister reports whether i may give up a function.
//
// gearmand wakes even the worker that gives it up, if it sleeps: to no use.
func (k *gearmanState) mayUnregister(i int, function string) bool {
	if k.losesMany(i, function) || k.leavesWoken(i, function) {
		return false
	}
	for _, j := range k.jobs {
		if j.gone || j.holder != i || j.function != function {
			continue
		}
		waiting := 0
		for _, n := range j.waiting {
			waiting += n
		}
		if k.conns[i].drowsy || !k.mayLose(j, -1, waiting) {
			return false
		}
	}
	return true
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

// maySubmit reports whether a job may be submitted. epoch says that its time is in
// the future.
//
// gearmand lets a submission join a job that it is not going to run, and counts
// such jobs for limits (tag I); 1.1.20 wakes sleepers for a job whose time has not
// come, and starves low jobs behind it (tag V).
func (k *gearmanState) maySubmit(j *gearmanJob) bool {
	if twin := k.twin(j.function, j.unique, j.body); twin != nil {
		return !twin.ghost && !twin.cancelled
	}
	low := func(j *gearmanJob) bool { return j.class == 2 }
	switch {
	case k.limited[j.function] && k.haunted(j.function):
		return false
	case j.delayed:
		return !k.sleepers(j.function, -1) && !k.with(j.function, low) && !k.haunted(j.function)
	}
	return j.class != 2 || !k.delayed(j.function)
}

// mayPick reports whether i may ask for a job, or whether there is one.
//
// 1.1.20 looks function by function where 2.0.0 looks priority by priority (tag V):
// they agree while the best jobs of all functions are of one priority.
// Passing by ghosts, or by jobs whose time has not come, changes the turn of
// functions in 1.1.20.
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
		best := -1
		for _, j := range k.jobs {
			if !j.gone && j.function == f && j.holder < 0 && (best < 0 || j.class < best) {
				best = j.class
			}
		}
		if best >= 0 && common >= 0 && best != common {
			return false
		}
		common = max(common, best)
	}
	return true
}

// mayAskUnique reports whether the status of a job may be asked for by its unique:
// gearmand finds jobs so that it is not going to run.
func (k *gearmanState) mayAskUnique(unique string) bool {
	return !slices.ContainsFunc(k.jobs, func(j *gearmanJob) bool {
		return !j.gone && j.unique == unique && (j.ghost || j.cancelled)
	})
}

// mayAsk is mayAskUnique for a handle.
func (k *gearmanState) mayAsk(handle string) bool {
	j := k.job(handle)
	return j == nil || !j.ghost
}

// mayCancel reports whether a job may be cancelled: a ghost can be cancelled again in gearmand, and so can a job that
// runs on after it was cancelled (tag I).
func (k *gearmanState) mayCancel(handle string) bool {
	j := k.job(handle)
	return j == nil || !j.cancelled && !j.ghost && (j.holder >= 0 || j.delayed || !k.delayed(j.function))
}

// mayDrop reports whether a function may be dropped: gearmand drops one with waiting
// jobs, and then has dangling ones (tag I).
func (k *gearmanState) mayDrop(function string) bool {
	return !slices.ContainsFunc(k.jobs, func(j *gearmanJob) bool {
		return !j.gone && strings.EqualFold(j.function, function)
	})
}

// listed takes in the lines of gearmand's show jobs.
func (k *gearmanState) listed(lines []string) {
	ignored := map[string]bool{}
	for _, line := range lines {
		if f := strings.Split(line, "\t"); len(f) == 4 {
			ignored[f[0]] = f[2] == "1"
		}
	}
	for _, j := range k.jobs {
		is, ok := ignored[j.handle]
		j.gone = !ok
		j.ghost = is && j.holder < 0
	}
}

// created takes in the JOB_CREATED for a submission of connection i.
func (k *gearmanState) created(i int, job gearmanJob, foreground bool) {
	j := k.job(job.handle)
	if j == nil {
		j = &job
		j.waiting = map[int]int{}
		k.jobs = append(k.jobs, j)
	} else if job.background && !j.background {
		j.joined = true
	}
	if foreground {
		j.waiting[i]++
	}
}

// assigned takes in that connection i got a job.
func (k *gearmanState) assigned(i int, handle string) {
	if j := k.job(handle); j != nil {
		j.holder, j.delayed = i, false
	}
}

// exorcise takes out of a list of gearmand's what is to be gone (tag I):
// queued jobs that nobody wants any more, which it keeps until a worker looks, and
// the mark of running ones. A job that was once submitted in the background is a
// background job, whoever joins or leaves (tag I).
func (k *gearmanState) exorcise(list string, lines []string) []string {
	lines = slices.Clone(lines)
	for _, j := range k.jobs {
		if j.gone {
			continue
		}
		switch list {
		case "status":
			if j.ghost {
				decrement(lines, j.function, 1)
			}
		case "prioritystatus":
			if j.ghost {
				decrement(lines, j.function, 1+j.class)
			}
		case "show jobs":
			at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, j.handle+"\t") })
			if at < 0 {
				break
			}
			if j.ghost {
				lines = slices.Delete(lines, at, at+1)
				break
			}
			f := strings.Split(lines[at], "\t")
			f[2] = "0"
			if (j.background || j.joined) && !j.cancelled {
				f[3] = "1\n"
			}
			lines[at] = strings.Join(f, "\t")
		case "show unique jobs":
			if j.ghost {
				if at := slices.Index(lines, j.unique+"\n"); at >= 0 {
					lines = slices.Delete(lines, at, at+1)
				}
			}
		}
	}
	return lines
}

// decrement counts one less in a column of a function's line.
func decrement(lines []string, function string, column int) {
	for i, line := range lines {
		rest, ok := strings.CutPrefix(line, function+"\t")
		if !ok {
			continue
		}
		f := strings.Split(rest, "\t")
		var n int
		if _, err := fmt.Sscan(f[column-1], &n); err == nil {
			f[column-1] = fmt.Sprint(n - 1)
		}
		lines[i] = function + "\t" + strings.Join(f, "\t")
	}
}
