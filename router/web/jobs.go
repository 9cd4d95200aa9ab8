package web

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"

	wire "polystalk/codec/admin"
	"polystalk/router/admin"
	"polystalk/shard/core"
)

// previewMax is how much of a body a preview shows, in bytes.
const previewMax = 256

// putJob puts a job: as JSON, or the body as it is with the rest as parameters.
func (s *Server) putJob(c *call) error {
	var j admin.NewJob
	var err error
	if c.mediaType() == "application/octet-stream" {
		j, err = rawJob(c)
	} else {
		j, err = jsonJob(c)
	}
	if err != nil {
		return err
	}
	j.Tube = c.tube()
	id, err := s.op.Put(c.ctx, j)
	if err != nil {
		return err
	}
	c.affected = 1
	// Relative, so that it leads there behind whatever prefix a proxy puts before it.
	c.w.Header().Set("Location", "../../jobs/"+strconv.FormatUint(uint64(id), 10))
	return c.answer(http.StatusCreated, wire.Put{ID: uint64(id)})
}

func rawJob(c *call) (j admin.NewJob, err error) {
	q, err := c.query("pri", "delay", "ttr")
	if err != nil {
		return j, err
	}
	for _, p := range []struct {
		name    string
		without uint64
		to      *uint32
	}{{"pri", 0, &j.Pri}, {"delay", 0, &j.Delay}, {"ttr", wire.DefaultTTR, &j.TTR}} {
		n, err := number(q, p.name, p.without, 0, math.MaxUint32)
		if err != nil {
			return j, err
		}
		*p.to = uint32(n)
	}
	j.Body = c.body
	return j, nil
}

func jsonJob(c *call) (j admin.NewJob, err error) {
	var in wire.NewJob
	if _, err := c.query(); err != nil {
		return j, err
	}
	if err := c.decode(&in); err != nil {
		return j, err
	}
	if in.Body != nil && in.BodyBase64 != nil {
		return j, wire.Invalid.With("body_base64", "there is a body already", "give body or body_base64, not both")
	}
	j = admin.NewJob{Delay: in.DelaySeconds, TTR: wire.DefaultTTR, Body: in.BodyBase64}
	if in.Pri != nil {
		j.Pri = *in.Pri
	}
	if in.TTRSeconds != nil {
		j.TTR = *in.TTRSeconds
	}
	if in.Body != nil {
		j.Body = []byte(*in.Body)
	}
	return j, nil
}

func jobValue(j *admin.JobRow) wire.Job {
	return wire.Job{
		ID: uint64(j.ID), Tube: wire.ShownName(j.Tube), Path: wire.PathName(j.Tube), State: j.State.String(),
		Pri: j.Pri, DelaySeconds: j.Delay, TTRSeconds: j.TTR,
		AgeSeconds: seconds(j.Age), StateSeconds: seconds(j.InState), LeftSeconds: seconds(j.TimeLeft),
		Reserves: j.Reserves, Timeouts: j.Timeouts, Releases: j.Releases, Buries: j.Buries, Kicks: j.Kicks,
		Content: wire.Content{Size: int(j.Size)},
	}
}

// shown is how much of bodies is shown in each of the ways in which one asks for it.
var shown = map[string]uint32{"none": 0, "preview": previewMax, "full": math.MaxUint32}

// showing reads the parameter body, and refuses who may not read bodies.
func (c *call) showing(q url.Values) (how string, most uint32, err error) {
	if how, err = one(q, "body", "none", "preview", "full"); err != nil || how == "none" {
		return how, 0, err
	}
	return how, shown[how], c.mayRead()
}

// seconds is a time to the millisecond.
func seconds(t core.Time) float64 { return math.Round(float64(t)/1e6) / 1e3 }

// mayRead refuses who may not read bodies.
func (c *call) mayRead() error {
	if c.grant.MayReadBodies() {
		return nil
	}
	return wire.ReadOnly.With("body", "the token may not read the bodies of jobs", "use a token with the role operate, or with +bodies in its line")
}

func (s *Server) getJob(c *call) error {
	q, err := c.query("body")
	if err != nil {
		return err
	}
	show, most, err := c.showing(q)
	if err != nil {
		return err
	}
	id, err := c.job()
	if err != nil {
		return err
	}
	j, version, err := s.op.Job(c.ctx, id, most)
	if err != nil {
		return err
	}
	// What passes with time alone is no change.
	if c.tagged(s.jobTag(version)+show[:1], false) {
		return nil
	}
	v := jobValue(&j)
	if show != "none" {
		v.Content = wire.NewContent(j.Body, int(j.Size))
	}
	return c.answer(http.StatusOK, v)
}

// jobTag begins the tag of a job: versions are those of one process.
func (s *Server) jobTag(version uint64) string {
	return hashed(s.boot, "job")[:8] + fmt.Sprintf("%016x", version)
}

// getBody sends a body as it is. No browser is to show it: whoever has put it may have
// meant a page.
func (s *Server) getBody(c *call) error {
	if _, err := c.query(); err != nil {
		return err
	}
	if err := c.mayRead(); err != nil {
		return err
	}
	id, err := c.job()
	if err != nil {
		return err
	}
	j, _, err := s.op.Job(c.ctx, id, math.MaxUint32)
	if err != nil {
		return err
	}
	body := j.Body
	if c.tagged(hashed(s.boot, string(body)), false) {
		return nil
	}
	h := c.w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", fmt.Sprintf(`attachment; filename="job-%d"`, id))
	h.Set("Content-Length", strconv.Itoa(len(body)))
	c.w.WriteHeader(http.StatusOK)
	if c.r.Method != http.MethodHead {
		c.w.Write(body)
	}
	return nil
}

func (s *Server) deleteJob(c *call) error { return s.onJob(c, s.op.Delete) }
func (s *Server) kickJob(c *call) error   { return s.onJob(c, s.op.KickJob) }

// onJob does something to the job in the path.
func (s *Server) onJob(c *call, do func(ctx context.Context, id core.JobID) error) error {
	if _, err := c.query(); err != nil {
		return err
	}
	id, err := c.job()
	if err != nil {
		return err
	}
	if err := do(c.ctx, id); err != nil {
		return err
	}
	c.affected = 1
	return c.done()
}
