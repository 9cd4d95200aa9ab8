package admin

import (
	"context"

	wire "polystalk/codec/admin"
	"polystalk/router/direct"
	"polystalk/shard/core"
	"polystalk/shard/slab"
)

// PutMany puts jobs in their order, and returns the result of each once all are durable. Jobs in
// small steps share visits of shards and a commit. If the rest of the jobs cannot be put, such as
// on a full disk, the results are shorter, and err says why. After wire.Uncertain there are none.
func (o *Operator) PutMany(ctx context.Context, jobs []wire.LineJob) (results []wire.PutLine, err error) {
	p := &manyPuts{o: o, jobs: jobs, results: make([]wire.PutLine, len(jobs))}
	n, put := 0, uint64(0)
	defer func() { o.counts.add("put", put, uint64(len(jobs))-put, err) }()
	for n < len(jobs) && err == nil {
		var next int
		if next, err = p.step(ctx, n); err == nil {
			n = next
		}
	}
	if p.commit == 0 {
		if late := o.fence(ctx); late != nil {
			return nil, late
		}
	} else if late := o.lastCommit(ctx, p.commit); late != nil {
		err = late
		return nil, err
	}
	for _, r := range p.results[:n] {
		if r.Problem == nil {
			put++
		}
	}
	return p.results[:n], err
}

// A manyPuts is a running PutMany.
type manyPuts struct {
	o       *Operator
	jobs    []wire.LineJob
	results []wire.PutLine
	x       core.OperatorOp
	commit  uint64 // that the results depend on; zero: none
}

// step puts the jobs from number first on, as many as fit into a visit, and returns the number of
// the next one. After an error, it has put none.
func (p *manyPuts) step(ctx context.Context, first int) (next int, err error) {
	size, list := 0, []int(nil)
	for next = first; next < len(p.jobs) && len(list) < bulkStep; next++ {
		j := &p.jobs[next]
		err := checkSize(j.Body, p.o.opts.MaxJobSize())
		if err == nil {
			err = checkName("tube", j.Tube)
		}
		if err != nil {
			p.results[next].Problem = err.(*wire.Problem)
			continue
		}
		n := len(j.Tube) + len(j.Body) + claimHead
		if len(list) > 0 && (size+n > transferBytes || len(j.Body) > slab.MaxSize) {
			break
		}
		size += n
		list = append(list, next)
	}
	err = p.o.withRoom(ctx, size, func() (err error) {
		late := p.o.visit(ctx, func(c *direct.Caller) {
			if p.o.Draining() {
				err = wire.Draining.Problem("")
				return
			}
			p.put(c, list)
		})
		if late != nil {
			return late
		}
		return err
	})
	return next, err
}

// put puts the jobs of list. Neighbors of the same tube share an operation.
func (p *manyPuts) put(c *direct.Caller, list []int) {
	host := p.o.opts.Host
	first := host.Map.IDs().Take(len(list))
	ids := make([]core.JobID, len(list))
	for k := range list {
		ids[k] = first + core.JobID(k)
	}
	for len(list) > 0 {
		tube := p.jobs[list[0]].Tube
		shard := host.Map.OfTube([]byte(tube))
		x := &p.x
		x.Seen, x.Jobs, x.Bodies = host.Clock.Now(), x.Jobs[:0], x.Bodies[:0]
		n := 0
		for ; n < len(list) && p.jobs[list[n]].Tube == tube; n++ {
			x.Jobs = append(x.Jobs, p.row(&p.jobs[list[n]]))
			host.Map.IDs().Note(ids[n], shard)
		}
		c.Op().PutCopies([]byte(tube), ids[:n], x)
		p.commit = max(p.commit, c.Do(shard).Commit)
		for k, status := range x.Results {
			if status == core.StatusOK {
				p.results[list[k]].ID = uint64(ids[k])
				continue
			}
			host.Map.IDs().Finish(ids[k])
			p.results[list[k]].Problem = notPut(status)
		}
		clear(x.Jobs) // so that the collector can free large bodies
		list, ids = list[n:], ids[n:]
	}
}

// row returns a job as the original of a copy, and adds its body to p.x.
func (p *manyPuts) row(j *wire.LineJob) core.JobRow {
	row := core.JobRow{JobStats: core.JobStats{State: core.Ready, Pri: j.Pri, TTR: max(1, j.TTR)}}
	switch {
	case j.Buried:
		row.State, row.Buries = core.Buried, 1
	case j.Delay > 0:
		row.State, row.Delay, row.TimeLeft = core.Delayed, j.Delay, core.Time(j.Delay)*core.Second
	}
	body, large := stored(j.Body)
	row.Large, row.BodyAt, row.BodySize = large, len(p.x.Bodies), len(body)
	p.x.Bodies = append(p.x.Bodies, body...)
	return row
}
