package measure

import (
	"context"
	"os"
	"strconv"
	"time"

	"polystalk/loadtest/proc"
	"polystalk/loadtest/workload"
)

// Measure runs p.Load once against the server at p.Addr; the plan's process and
// run are filled in here. Without a ServerPID what needs the server's process
// is left out. progress gets the operations answered so far, and since when.
func Measure(ctx context.Context, sp *proc.Spawner, p workload.Plan, progress func(ops int64, since time.Duration)) (_ *Run, err error) {
	defer func() { // processes that were ended report that as their failure
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}()
	r := &Run{Load: p.Load.Name}
	if r.RSSBefore, err = memoryOf(p.ServerPID); err != nil {
		return nil, err
	}
	p.Run = strconv.FormatInt(int64(os.Getpid()), 36) + strconv.FormatInt(time.Now().UnixMilli()&0xfffffff, 36)
	all, err := startCrew(ctx, sp, p)
	defer func() { all.kill() }()
	if err != nil {
		return nil, err
	}
	if _, err := all.await(workload.Prepared, nil); err != nil {
		return nil, err
	}
	if err := all.proceed(); err != nil {
		return nil, err
	}
	if _, err := all.await(workload.Warm, nil); err != nil {
		return nil, err
	}
	if err := r.measured(all, p.ServerPID, progress); err != nil {
		return nil, err
	}
	if err := all.proceed(); err != nil {
		return nil, err
	}
	if _, err := all.await(workload.Ended, nil); err != nil {
		return nil, err
	}
	return r, all.wait()
}

// measured has the processes go through the stage that counts, and reads the
// server's clocks before and after it.
func (r *Run) measured(all crew, pid int, progress func(ops int64, since time.Duration)) error {
	before, err := cpuOf(pid)
	if err != nil {
		return err
	}
	start := time.Now()
	if err := all.proceed(); err != nil {
		return err
	}
	reports, err := all.await(workload.Measured, func(ops int64) { progress(ops, time.Since(start)) })
	if err != nil {
		return err
	}
	after, err := cpuOf(pid)
	if err != nil {
		return err
	}
	if r.RSSAfter, err = memoryOf(pid); err != nil {
		return err
	}
	return r.add(reports, after.Since(before))
}

// cpuOf is the CPU that a server has used; zero if its process is not known.
func cpuOf(pid int) (proc.CPUTime, error) {
	if pid == 0 {
		return proc.CPUTime{}, nil
	}
	return proc.CPU(pid)
}

// memoryOf is a server's resident memory; zero if its process is not known.
func memoryOf(pid int) (int64, error) {
	if pid == 0 {
		return 0, nil
	}
	return proc.RSS(pid)
}
