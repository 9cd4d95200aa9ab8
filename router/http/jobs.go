package http

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
	"polystalk/router/admin"
	"polystalk/shard/core"
)

// bodyBytes is the number of bytes shown of a body.
var bodyBytes = [...]uint32{access.None: 0, access.Preview: 256, access.Full: math.MaxUint32}

// putJob puts a job: as JSON, or as a raw body with parameters.
func (a *API) putJob(c *call) error {
	read := jsonJob
	if c.mediaType() == "application/octet-stream" {
		read = rawJob
	}
	j, err := read(c)
	if err != nil {
		return err
	}
	j.Tube = tubeOf(c)
	if err := a.pay(c, 1); err != nil {
		return err
	}
	if err := a.fits(c, j.Tube, len(j.Body), make(pending)); err != nil {
		return err
	}
	id, err := a.op.Put(c.Ctx, j)
	if err != nil {
		return err
	}
	c.Affected = 1
	c.W.Header().Set("Location", "../../jobs/"+strconv.FormatUint(uint64(id), 10)) // relative: a proxy may add a prefix
	return c.answer(http.StatusCreated, wire.Put{ID: uint64(id)})
}

func rawJob(c *call) (j admin.NewJob, err error) {
	q := &c.Query
	j.Pri = uint32(q.number("pri", 0, 0, math.MaxUint32))
	j.Delay = uint32(q.number("delay", 0, 0, math.MaxUint32))
	j.TTR = uint32(q.number("ttr", wire.DefaultTTR, 0, math.MaxUint32))
	j.Body = c.Body
	return j, q.err
}

func jsonJob(c *call) (j admin.NewJob, err error) {
	var in wire.NewJob
	if err := c.readQuery(""); err != nil {
		return j, err
	}
	if err := c.decode(&in); err != nil {
		return j, err
	}
	if in.Body != nil && in.BodyBase64 != nil {
		return j, twoBodies()
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

func twoBodies() error {
	return wire.Invalid.With("body_base64", "there is also a body", "give body or body_base64, not both")
}

// readShown reads the parameter body. It returns how much of bodies to show, as a word and in
// bytes, or a problem if the client may not see that much.
func readShown(c *call) (how string, most uint32, err error) {
	if how = c.Query.one("body", "none", "preview", "full"); c.Query.err != nil {
		return how, 0, c.Query.err
	}
	wanted, err := access.ParseBodies(how)
	if err != nil {
		return how, 0, err
	}
	return how, bodyBytes[wanted], maySee(c, wanted)
}

// maySee returns a problem if the client may not see that much of bodies.
func maySee(c *call, wanted access.Bodies) error {
	switch {
	case c.Sees >= wanted:
		return nil
	case c.By.Some()&(access.Work|access.Manage) == 0:
		return wire.NotPermitted.With("body", "this client may not see job bodies", "use a token of an identity with bodies = \"full\", or with the role operate")
	case c.Sees == access.Preview:
		return wire.NotPermitted.With("body", "this client may see only previews of job bodies", "ask for body=preview, use a token of an identity with bodies = \"full\", or start the server with --http-bodies full")
	}
	return wire.NotPermitted.With("body", "this server does not show job bodies", "use a token of an identity with bodies = \"full\", or start the server with --http-bodies full")
}

func (a *API) getJob(c *call, id core.JobID) error {
	show, most, err := readShown(c)
	if err != nil {
		return err
	}
	if show == "full" {
		return a.getWholeJob(c, id)
	}
	j, version, err := a.op.Job(c.Ctx, id, most)
	if err != nil || c.tagged(a.jobTag(version)+show[:1], false) {
		return err
	}
	v := j.Value()
	if show != "none" {
		v.Content = wire.NewContent(j.Body, int(j.Size))
	}
	return c.answer(http.StatusOK, v)
}

// getWholeJob is getJob with the whole body. It sends the body in parts from the job's own
// memory, so that a slow client needs no copy.
func (a *API) getWholeJob(c *call, id core.JobID) error {
	j, body, version, err := a.op.WholeJob(c.Ctx, id)
	if err != nil || c.tagged(a.jobTag(version)+"f", false) {
		return err
	}
	head, err := encoded(j.Value())
	if err != nil {
		return err
	}
	c.W.Header().Set("Content-Type", "application/json")
	c.W.WriteHeader(http.StatusOK)
	if c.R.Method == http.MethodHead {
		return nil
	}
	out := &longAnswer{to: c.W, buf: head[:len(head)-1]} // without the brace at its end
	if err := addContent(out, body); err != nil {
		return err
	}
	out.buf = append(out.buf, "\"}\n"...)
	out.end()
	return out.err
}

// addContent adds the member of a wire.Content that has the body, without the last quote.
func addContent(out *longAnswer, body core.Large) error {
	text := true
	for part := range parts(body) {
		text = text && wire.IsText(part)
	}
	if !text {
		out.buf = append(out.buf, `,"body_base64":"`...)
		coded := base64.NewEncoder(base64.StdEncoding, out)
		for part := range parts(body) {
			coded.Write(part)
		}
		return coded.Close()
	}
	out.buf = append(out.buf, `,"body":"`...)
	for part := range parts(body) {
		quoted, err := encoded(string(part))
		if err != nil {
			return err
		}
		if _, err := out.Write(quoted[1 : len(quoted)-1]); err != nil {
			return err
		}
	}
	return nil
}

// partMax is the largest part of a body, in bytes, without a character that began before it.
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

// jobTag returns the beginning of a job's ETag. A version is valid in one process, and does not
// change with the job's age or the time left.
func (a *API) jobTag(version uint64) string {
	return hashed(a.boot, "job")[:8] + fmt.Sprintf("%016x", version)
}

// getBody sends the raw body. Browsers must save it, not show it: it may be a page.
func (a *API) getBody(c *call, id core.JobID) error {
	if err := maySee(c, access.Full); err != nil {
		return err
	}
	_, body, _, err := a.op.WholeJob(c.Ctx, id)
	if err != nil || c.tagged(a.bodyTag(body), false) {
		return err
	}
	h := c.W.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", fmt.Sprintf(`attachment; filename="job-%d"`, id))
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	c.W.WriteHeader(http.StatusOK)
	if c.R.Method == http.MethodHead {
		return nil
	}
	for _, piece := range body { // the job's own memory, as in getWholeJob
		if _, err := c.W.Write(piece); err != nil {
			return err
		}
	}
	return nil
}

// bodyTag returns the ETag of a body, which depends only on the bytes and the process.
func (a *API) bodyTag(body core.Large) string {
	h := sha256.New()
	io.WriteString(h, a.boot)
	for _, piece := range body {
		h.Write(piece)
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// changeJob returns a handler that changes the job in the path, with force also a reserved one.
func (a *API) changeJob(verb core.Verb) func(c *call) error {
	return a.withJob(func(c *call, id core.JobID) error {
		force, err := c.Query.isTrue("force"), c.Query.err
		if err == nil {
			err = a.op.Act(c.Ctx, id, verb, force)
		}
		if verb != core.VerbKick { // its route has no force
			err = forcible(err)
		}
		return changed(c, err)
	})
}

// changed answers a request that has changed one thing, or returns err.
func changed(c *call, err error) error {
	if err != nil {
		return err
	}
	c.Affected = 1
	return c.done()
}

// forcible adds to the problem of a reserved job the remedy force=true.
func forcible(err error) error {
	if wire.JobReserved.Is(err) {
		return wire.JobReserved.With("", err.(*wire.Problem).Detail, "wait until the worker is done, or force it (?force=true)")
	}
	return err
}

// transferJob returns a handler that moves or copies the job in the path to the tube in the body.
func (a *API) transferJob(copies bool) func(c *call) error {
	return a.withJob(func(c *call, id core.JobID) error {
		var in wire.NewTransfer
		if err := c.decode(&in); err != nil {
			return err
		}
		if in.To == nil {
			return noTarget()
		}
		if err := a.mayOn(c, access.Put, *in.To); err != nil {
			return err
		}
		if copies {
			if err := a.pay(c, 1); err != nil {
				return err
			}
		}
		is, err := a.op.TransferJob(c.Ctx, id, admin.Transfer{To: *in.To, Copy: copies, Limit: a.transferLimit(c.By, *in.To, copies)})
		if err != nil {
			return err
		}
		c.Affected = 1
		c.W.Header().Set("Location", "../"+strconv.FormatUint(uint64(is), 10))
		return c.answer(http.StatusCreated, wire.Transfer{ID: uint64(is), From: uint64(id), Tube: wire.ShownName(*in.To), Path: wire.PathName(*in.To)})
	})
}

// editJob changes a job. With If-Match, the job must have the version that the client has seen.
func (a *API) editJob(c *call, id core.JobID) error {
	var e admin.Edit
	if e.Force = c.Query.isTrue("force"); c.Query.err != nil {
		return c.Query.err
	}
	err := decodeEdit(c, &e)
	if err != nil {
		return err
	}
	if e.Expect, err = a.expected(c); err != nil {
		return err
	}
	e.Limit = func(tube string, bytes int) error {
		if a.opts.Access.Exceeds(c.By, []byte(tube), 0, bytes, a.op.Used) {
			return quotaReached(tube)
		}
		return nil
	}
	version, err := a.op.Edit(c.Ctx, id, &e)
	if err != nil {
		return forcible(err)
	}
	c.Affected = 1
	if version != 0 {
		c.W.Header().Set("ETag", `"`+a.jobTag(version)+`n"`)
	}
	return c.done()
}

func decodeEdit(c *call, e *admin.Edit) error {
	var in wire.EditJob
	if err := c.decode(&in); err != nil {
		return err
	}
	e.Changes = changesOf(in.Pri, in.DelaySeconds, in.TTRSeconds, &e.Pri, &e.Delay, &e.TTR)
	switch {
	case in.Body != nil && in.BodyBase64 != nil:
		return twoBodies()
	case in.Body != nil:
		e.Body = []byte(*in.Body)
		e.Changes |= core.ChangeBody
	case in.BodyBase64 != nil:
		e.Body = *in.BodyBase64
		e.Changes |= core.ChangeBody
	}
	if e.Changes == 0 {
		return wire.Invalid.With("", "there is nothing to change", "give one of pri, delay_seconds, ttr_seconds, body and body_base64")
	}
	return nil
}

// ifMatch returns the tag that If-Match requires of what; empty: any. Source: RFC 9110, section 13.1.1.
func ifMatch(c *call, what string) (tag string, err error) {
	headers := c.R.Header.Values("If-Match")
	if len(headers) == 0 || len(headers) == 1 && headers[0] == "*" {
		return "", nil
	}
	if len(headers) > 1 || strings.Contains(headers[0], ",") {
		return "", wire.BadRequest.With("If-Match", "it has several tags", "give one tag: the ETag of "+what+" that you have read")
	}
	return headers[0], nil
}

// expected returns the version of a job that If-Match requires; 0: any. A tag of another process
// matches no job, like any other text.
func (a *API) expected(c *call) (version uint64, err error) {
	tag, err := ifMatch(c, "the job")
	if tag == "" {
		return 0, err
	}
	begin := len(a.jobTag(0)) - 16 + 1
	if len(tag) == begin+16+2 {
		version, err = strconv.ParseUint(tag[begin:begin+16], 16, 64)
		if err == nil && strings.HasPrefix(tag, `"`+a.jobTag(version)) {
			return version, nil
		}
	}
	return 0, wire.Changed.With("If-Match", "the job does not have this tag", wire.Changed.Remedy)
}
