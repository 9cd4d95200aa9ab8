package web

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"

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

func (s *Server) kickJob(c *call) error    { return s.onJob(c, s.op.KickJob) }
func (s *Server) releaseJob(c *call) error { return s.onJob(c, s.op.ReleaseJob) }
func (s *Server) deleteJob(c *call) error  { return s.onAnyJob(c, s.op.Delete) }
func (s *Server) buryJob(c *call) error    { return s.onAnyJob(c, s.op.BuryJob) }

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

// onAnyJob is onJob for what can be forced on jobs that workers have.
func (s *Server) onAnyJob(c *call, do func(ctx context.Context, id core.JobID, force bool) error) error {
	force, err := c.force()
	if err != nil {
		return err
	}
	id, err := c.job()
	if err != nil {
		return err
	}
	if err := do(c.ctx, id, force); err != nil {
		return err
	}
	c.affected = 1
	return c.done()
}

// force reads the parameter force, the only one.
func (c *call) force() (bool, error) {
	q, err := c.query("force")
	if err != nil {
		return false, err
	}
	word, err := one(q, "force", "false", "true")
	return word == "true", err
}

// editJob changes a job, perhaps only if it is what the client has seen.
func (s *Server) editJob(c *call) error {
	var e admin.Edit
	var err error
	if e.Force, err = c.force(); err != nil {
		return err
	}
	id, err := c.job()
	if err != nil {
		return err
	}
	if err := c.decodeEdit(&e); err != nil {
		return err
	}
	if e.Expect, err = s.expected(c); err != nil {
		return err
	}
	version, err := s.op.Edit(c.ctx, id, &e)
	if err != nil {
		return err
	}
	c.affected = 1
	if version != 0 {
		c.w.Header().Set("ETag", `"`+s.jobTag(version)+`n"`)
	}
	return c.done()
}

// decodeEdit reads what is to be changed.
func (c *call) decodeEdit(e *admin.Edit) error {
	var in wire.EditJob
	if err := c.decode(&in); err != nil {
		return err
	}
	for _, p := range []struct {
		change core.Changes
		from   *uint32
		to     *uint32
	}{{core.ChangePri, in.Pri, &e.Pri}, {core.ChangeDelay, in.DelaySeconds, &e.Delay}, {core.ChangeTTR, in.TTRSeconds, &e.TTR}} {
		if p.from != nil {
			*p.to = *p.from
			e.Changes |= p.change
		}
	}
	e.TTR = max(1, e.TTR) // as for put
	switch {
	case in.Body != nil && in.BodyBase64 != nil:
		return wire.Invalid.With("body_base64", "there is a body already", "give body or body_base64, not both")
	case in.Body != nil:
		e.Body = []byte(*in.Body)
		e.Changes |= core.ChangeBody
	case in.BodyBase64 != nil:
		e.Body = *in.BodyBase64
		e.Changes |= core.ChangeBody
	}
	if e.Changes == 0 {
		return wire.Invalid.With("", "nothing is to be changed", "give one of pri, delay_seconds, ttr_seconds, body and body_base64")
	}
	return nil
}

// expected is the version of a job that If-Match wants; zero: any. A tag of another process,
// or what is none, is no longer that of any job.
// Source: RFC 9110, section 13.1.1.
func (s *Server) expected(c *call) (version uint64, err error) {
	headers := c.r.Header.Values("If-Match")
	if len(headers) == 0 || len(headers) == 1 && headers[0] == "*" {
		return 0, nil
	}
	if len(headers) > 1 || strings.Contains(headers[0], ",") {
		return 0, wire.BadRequest.With("If-Match", "it has several tags", "give that of the job as it was looked at")
	}
	tag := headers[0]
	begin := len(s.jobTag(0)) - 16 + 1
	if len(tag) == begin+16+2 {
		version, err = strconv.ParseUint(tag[begin:begin+16], 16, 64)
		if err == nil && strings.HasPrefix(tag, `"`+s.jobTag(version)) {
			return version, nil
		}
	}
	return 0, wire.Changed.With("If-Match", "no job has that tag", wire.Changed.Remedy)
}
