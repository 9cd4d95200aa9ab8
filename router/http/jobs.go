package http

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
	"polystalk/router/admin"
	"polystalk/shard/core"
)

// previewMax is how much of a body a preview shows, in bytes.
const previewMax = 256

// putJob puts a job: as JSON, or the body as it is with the rest as parameters.
func (a *API) putJob(c *Call) error {
	var j admin.NewJob
	var err error
	if c.MediaType() == "application/octet-stream" {
		j, err = rawJob(c)
	} else {
		j, err = jsonJob(c)
	}
	if err != nil {
		return err
	}
	j.Tube = tubeOf(c)
	id, err := a.op.Put(c.Ctx, j)
	if err != nil {
		return err
	}
	c.Affected = 1
	// Relative, so that it leads there behind whatever prefix a proxy puts before it.
	c.W.Header().Set("Location", "../../jobs/"+strconv.FormatUint(uint64(id), 10))
	return c.Answer(http.StatusCreated, wire.Put{ID: uint64(id)})
}

func rawJob(c *Call) (j admin.NewJob, err error) {
	q, err := c.Query("pri", "delay", "ttr")
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
	j.Body = c.Body
	return j, nil
}

func jsonJob(c *Call) (j admin.NewJob, err error) {
	var in wire.NewJob
	if _, err := c.Query(); err != nil {
		return j, err
	}
	if err := c.Decode(&in); err != nil {
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
	var holder *wire.Holder
	if j.Conn != 0 {
		holder = &wire.Holder{Connection: j.Conn, Peer: j.Peer}
	}
	return wire.Job{
		ID: uint64(j.ID), Tube: wire.ShownName(j.Tube), Path: wire.PathName(j.Tube), State: j.State.String(), Moving: j.Moving,
		Pri: j.Pri, DelaySeconds: j.Delay, TTRSeconds: j.TTR,
		AgeSeconds: seconds(j.Age), StateSeconds: seconds(j.InState), LeftSeconds: seconds(j.TimeLeft),
		Reserves: j.Reserves, Timeouts: j.Timeouts, Releases: j.Releases, Buries: j.Buries, Kicks: j.Kicks,
		Holder: holder, Content: wire.Content{Size: int(j.Size)},
	}
}

// shown is how many bytes of bodies are shown.
var shown = [...]uint32{access.None: 0, access.Preview: previewMax, access.Full: math.MaxUint32}

// showing reads the parameter body, and refuses who may not see that.
func showing(c *Call, q url.Values) (how string, most uint32, err error) {
	if how, err = one(q, "body", "none", "preview", "full"); err != nil {
		return how, 0, err
	}
	wanted, err := access.ParseBodies(how)
	if err != nil {
		return how, 0, err
	}
	return how, shown[wanted], maySee(c, wanted)
}

// seconds is a time to the millisecond.
func seconds(t core.Time) float64 { return math.Round(float64(t)/1e6) / 1e3 }

// maySee refuses who may not see that much of bodies.
func maySee(c *Call, wanted access.Bodies) error {
	switch {
	case c.Sees >= wanted:
		return nil
	case c.Grant.Role < access.Operate:
		return wire.ReadOnly.With("body", "who asks may not see the bodies of jobs", "use a token with the role operate, or with +bodies in its line")
	case c.Sees == access.Preview:
		return wire.ReadOnly.With("body", "who asks may see the beginnings of bodies alone", "ask for body=preview, use a token with +bodies in its line, or start the server with --http-bodies full")
	}
	return wire.ReadOnly.With("body", "the bodies of jobs are not shown here", "use a token with +bodies in its line, or start the server with --http-bodies full")
}

func (a *API) getJob(c *Call) error {
	q, err := c.Query("body")
	if err != nil {
		return err
	}
	show, most, err := showing(c, q)
	if err != nil {
		return err
	}
	id, err := jobOf(c)
	if err != nil {
		return err
	}
	if show == "full" {
		return a.getWholeJob(c, id)
	}
	j, version, err := a.op.Job(c.Ctx, id, most)
	if err != nil {
		return err
	}
	if c.Tagged(a.jobTag(version)+show[:1], false) {
		return nil
	}
	v := jobValue(&j)
	if show != "none" {
		v.Content = wire.NewContent(j.Body, int(j.Size))
	}
	return c.Answer(http.StatusOK, v)
}

// getWholeJob is getJob with all of the body. The body is sent in pieces, so that a client that
// reads slowly costs no memory: see getBody.
func (a *API) getWholeJob(c *Call, id core.JobID) error {
	j, body, version, err := a.op.WholeJob(c.Ctx, id)
	if err != nil {
		return err
	}
	if c.Tagged(a.jobTag(version)+"f", false) {
		return nil
	}
	head, err := Encoded(jobValue(&j))
	if err != nil {
		return err
	}
	c.W.Header().Set("Content-Type", "application/json")
	c.W.WriteHeader(http.StatusOK)
	if c.R.Method == http.MethodHead {
		return nil
	}
	if _, err := c.W.Write(head[:len(head)-1]); err != nil { // without the brace at its end
		return err
	}
	if err := writeContent(c.W, body); err != nil {
		return err
	}
	_, err = io.WriteString(c.W, "\"}\n")
	return err
}

// writeContent writes the member of a wire.Content that holds a body, but for the quote at its
// end.
func writeContent(w io.Writer, body core.Large) error {
	text := true
	for part := range parts(body) {
		text = text && wire.IsText(part)
	}
	if !text {
		if _, err := io.WriteString(w, `,"body_base64":"`); err != nil {
			return err
		}
		coded := base64.NewEncoder(base64.StdEncoding, w)
		for part := range parts(body) {
			if _, err := coded.Write(part); err != nil {
				return err
			}
		}
		return coded.Close()
	}
	if _, err := io.WriteString(w, `,"body":"`); err != nil {
		return err
	}
	for part := range parts(body) {
		quoted, err := Encoded(string(part))
		if err != nil {
			return err
		}
		if _, err := w.Write(quoted[1 : len(quoted)-1]); err != nil {
			return err
		}
	}
	return nil
}

// partMax bytes of a body, and of a character that began before them, are in memory at a time.
const partMax = 32 << 10

// parts yields the parts of a body. No part ends within a character.
func parts(body core.Large) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		var begun []byte // the beginning of a character that the next part completes
		for _, piece := range body {
			for part := range slices.Chunk(piece, partMax) {
				part = slices.Concat(begun, part)
				n := wire.WholeRunes(part)
				if begun = part[n:]; !yield(part[:n]) {
					return
				}
			}
		}
		if len(begun) > 0 {
			yield(begun)
		}
	}
}

// jobTag begins the tag of a job: versions are those of one process. What passes with time
// alone is no change.
func (a *API) jobTag(version uint64) string {
	return Hashed(a.boot, "job")[:8] + fmt.Sprintf("%016x", version)
}

// getBody sends a body as it is. No browser is to show it: whoever has put it may have
// meant a page.
func (a *API) getBody(c *Call) error {
	if _, err := c.Query(); err != nil {
		return err
	}
	if err := maySee(c, access.Full); err != nil {
		return err
	}
	id, err := jobOf(c)
	if err != nil {
		return err
	}
	_, body, _, err := a.op.WholeJob(c.Ctx, id)
	if err != nil {
		return err
	}
	if c.Tagged(a.bodyTag(body), false) {
		return nil
	}
	h := c.W.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", fmt.Sprintf(`attachment; filename="job-%d"`, id))
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	c.W.WriteHeader(http.StatusOK)
	if c.R.Method == http.MethodHead {
		return nil
	}
	for _, piece := range body { // the job's own, so that clients who read slowly cost no memory
		if _, err := c.W.Write(piece); err != nil {
			return err // the client's
		}
	}
	return nil
}

// bodyTag is that of a body, however often the job that has it changes.
func (a *API) bodyTag(body core.Large) string {
	h := sha256.New()
	io.WriteString(h, a.boot)
	for _, piece := range body {
		h.Write(piece)
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

func (a *API) kickJob(c *Call) error    { return a.onJob(c, a.op.KickJob) }
func (a *API) releaseJob(c *Call) error { return a.onJob(c, a.op.ReleaseJob) }
func (a *API) deleteJob(c *Call) error  { return a.onAnyJob(c, a.op.Delete) }
func (a *API) buryJob(c *Call) error    { return a.onAnyJob(c, a.op.BuryJob) }

// onJob does something to the job in the path.
func (a *API) onJob(c *Call, do func(ctx context.Context, id core.JobID) error) error {
	if _, err := c.Query(); err != nil {
		return err
	}
	id, err := jobOf(c)
	if err != nil {
		return err
	}
	if err := do(c.Ctx, id); err != nil {
		return err
	}
	c.Affected = 1
	return c.Done()
}

// onAnyJob is onJob for what can be forced on jobs that workers have.
func (a *API) onAnyJob(c *Call, do func(ctx context.Context, id core.JobID, force bool) error) error {
	forced, err := force(c)
	if err != nil {
		return err
	}
	id, err := jobOf(c)
	if err != nil {
		return err
	}
	if err := do(c.Ctx, id, forced); err != nil {
		return forcible(err)
	}
	c.Affected = 1
	return c.Done()
}

// force reads the parameter force, the only one.
func force(c *Call) (bool, error) {
	q, err := c.Query("force")
	if err != nil {
		return false, err
	}
	word, err := one(q, "force", "false", "true")
	return word == "true", err
}

// forcible adds to the problem of who comes upon a worker's job that this can be forced.
func forcible(err error) error {
	if p, ok := errors.AsType[*wire.Problem](err); ok && p.Type == wire.ProblemPath+wire.JobReserved.Slug {
		p.Remedy = "wait until the worker is done, or force it (?force=true)"
	}
	return err
}

// editJob changes a job, perhaps only if it is what the client has seen.
func (a *API) editJob(c *Call) error {
	var e admin.Edit
	var err error
	if e.Force, err = force(c); err != nil {
		return err
	}
	id, err := jobOf(c)
	if err != nil {
		return err
	}
	if err := decodeEdit(c, &e); err != nil {
		return err
	}
	if e.Expect, err = a.expected(c); err != nil {
		return err
	}
	version, err := a.op.Edit(c.Ctx, id, &e)
	if err != nil {
		return forcible(err)
	}
	c.Affected = 1
	if version != 0 {
		c.W.Header().Set("ETag", `"`+a.jobTag(version)+`n"`)
	}
	return c.Done()
}

// decodeEdit reads what is to be changed.
func decodeEdit(c *Call, e *admin.Edit) error {
	var in wire.EditJob
	if err := c.Decode(&in); err != nil {
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
func (a *API) expected(c *Call) (version uint64, err error) {
	headers := c.R.Header.Values("If-Match")
	if len(headers) == 0 || len(headers) == 1 && headers[0] == "*" {
		return 0, nil
	}
	if len(headers) > 1 || strings.Contains(headers[0], ",") {
		return 0, wire.BadRequest.With("If-Match", "it has several tags", "give that of the job as it was looked at")
	}
	tag := headers[0]
	begin := len(a.jobTag(0)) - 16 + 1
	if len(tag) == begin+16+2 {
		version, err = strconv.ParseUint(tag[begin:begin+16], 16, 64)
		if err == nil && strings.HasPrefix(tag, `"`+a.jobTag(version)) {
			return version, nil
		}
	}
	return 0, wire.Changed.With("If-Match", "no job has that tag", wire.Changed.Remedy)
}
