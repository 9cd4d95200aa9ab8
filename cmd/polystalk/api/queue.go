package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"polystalk/cmd/polystalk/fault"
	"polystalk/cmd/polystalk/queue"
	"polystalk/codec/admin"
)

var _ queue.Queue = (*Client)(nil)

// bodyMax is the largest body that a server can be set to take, in bytes.
// Source: beanstalkd doc/beanstalkd.ronn, -z.
const bodyMax = 1 << 30

// partMax is the largest part of a list that the API has.
const partMax = 1000

// TubePath is the path of a tube, and of what is below it. A name that a proxy or the server
// would resolve as a part of the path is a parameter.
func TubePath(name, below string) string {
	if name == "." || name == ".." || name == "/" {
		return "/tubes/-" + below + "?tube=" + admin.PathName(name)
	}
	return "/tubes/" + admin.PathName(name) + below
}

// JobPath is the path of a job, and of what is below it.
func JobPath(id uint64, below string) string { return "/jobs/" + strconv.FormatUint(id, 10) + below }

// change asks for something of which only matters whether it was done.
func (c *Client) change(ctx context.Context, r Request) error {
	_, err := c.Do(ctx, r)
	return err
}

// Server implements queue.Queue.
func (c *Client) Server(ctx context.Context) ([]byte, error) { return c.Get(ctx, "/server", nil) }

// Tubes implements queue.Queue.
func (c *Client) Tubes(ctx context.Context, q queue.TubeQuery, page func([]byte) error) error {
	query := url.Values{}
	set(query, "match", q.Match)
	set(query, "sort", q.Sort)
	return c.List(ctx, "/tubes", "tubes", query, q.Limit, page)
}

// Tube implements queue.Queue.
func (c *Client) Tube(ctx context.Context, name string) ([]byte, error) {
	return c.Get(ctx, TubePath(name, ""), nil)
}

// Pause implements queue.Queue.
func (c *Client) Pause(ctx context.Context, name string, seconds uint32) error {
	r := Request{Method: "PUT", Path: TubePath(name, "/pause"), JSON: admin.Pause{Seconds: seconds}}
	if seconds == 0 {
		r.Method, r.JSON = "DELETE", nil
	}
	return c.change(ctx, r)
}

// Jobs implements queue.Queue.
func (c *Client) Jobs(ctx context.Context, q queue.JobQuery, page func([]byte) error) error {
	query := url.Values{}
	set(query, "state", strings.Join(q.States, ","))
	set(query, "order", q.Order)
	set(query, "contains", q.Contains)
	set(query, "body", q.Body)
	if q.MinID != 0 {
		query.Set("id_min", strconv.FormatUint(q.MinID, 10))
	}
	if q.MaxID != 0 {
		query.Set("id_max", strconv.FormatUint(q.MaxID, 10))
	}
	if q.Older != 0 {
		query.Set("older_than", strconv.FormatInt(int64(q.Older.Seconds()), 10))
	}
	path := "/jobs"
	if !q.AllTubes {
		path = TubePath(q.Tube, "/jobs")
	}
	return c.List(ctx, path, "jobs", query, q.Limit, page)
}

func set(query url.Values, name, value string) {
	if value != "" {
		query.Set(name, value)
	}
}

// List shows the parts of a list, whose rows are the member of that name, until there are
// limit rows, or all of them if it is 0.
func (c *Client) List(ctx context.Context, path, rows string, query url.Values, limit int, page func([]byte) error) error {
	for left := limit; ; {
		part := partMax
		if limit > 0 {
			part = min(left, partMax)
		}
		query.Set("limit", strconv.Itoa(part))
		a, err := c.Do(ctx, Request{Method: "GET", Path: path, Query: query, Bodies: query.Get("body") == "full"})
		if err != nil {
			return err
		}
		document := a.Document
		n, next, err := c.partOf(document, rows)
		if err != nil {
			return err
		}
		if err := page(document); err != nil {
			return err
		}
		if left -= n; next == "" || limit > 0 && left <= 0 {
			return nil
		}
		if next == query.Get("after") {
			return fault.New(fault.System, "%s gives the same part of the list again: try again", c.target.Name)
		}
		query.Set("after", next)
	}
}

// partOf is how many rows a part has, and what the next one is asked for by.
func (c *Client) partOf(document []byte, rows string) (n int, next string, err error) {
	var members map[string]json.RawMessage
	var list []json.RawMessage
	if json.Unmarshal(document, &members) != nil || json.Unmarshal(members[rows], &list) != nil {
		return 0, "", c.unread(rows)
	}
	if text, ok := members["next"]; ok && json.Unmarshal(text, &next) != nil {
		return 0, "", c.unread("next")
	}
	return len(list), next, nil
}

// unread is the fault for an answer in which something is missing.
func (c *Client) unread(member string) error {
	return fault.New(fault.System, "the server at %s answers without %q: use the polystalk of its version", c.target.Name, member)
}

// Job implements queue.Queue.
func (c *Client) Job(ctx context.Context, id uint64) ([]byte, error) {
	return c.Get(ctx, JobPath(id, ""), nil)
}

// Body implements queue.Queue.
func (c *Client) Body(ctx context.Context, id uint64, w io.Writer) error {
	return c.ask(ctx, Request{Method: "GET", Path: JobPath(id, "/body"), Octet: true}, func(res *http.Response, body io.Reader) error {
		// A body without a length could go on for ever. Proxies pass the length of the server on.
		if mediaType(res) != "application/octet-stream" || res.ContentLength < 0 || res.ContentLength > bodyMax {
			return c.foreign(res)
		}
		out := &writing{w: w}
		_, err := io.Copy(out, body)
		if out.err != nil {
			return out.err
		}
		if err != nil {
			return c.unreachable(err)
		}
		return nil
	})
}

// A writing keeps the error of w apart from those of what is read.
type writing struct {
	w   io.Writer
	err error
}

func (w *writing) Write(b []byte) (n int, err error) {
	n, w.err = w.w.Write(b)
	return n, w.err
}

// Put implements queue.Queue.
func (c *Client) Put(ctx context.Context, tube string, j queue.NewJob) (id uint64, err error) {
	query := url.Values{}
	for name, n := range map[string]uint32{"pri": j.Pri, "delay": j.Delay, "ttr": j.TTR} {
		query.Set(name, strconv.FormatUint(uint64(n), 10))
	}
	r := Request{Method: "POST", Path: TubePath(tube, "/jobs"), Query: query, Octets: j.Body, Large: j.Large}
	if r.Octets == nil && r.Large == nil {
		r.Octets = []byte{}
	}
	a, err := c.Do(ctx, r)
	if err != nil {
		return 0, err
	}
	var put admin.Put
	if err := json.Unmarshal(a.Document, &put); err != nil {
		return 0, c.unread("id")
	}
	return put.ID, nil
}

// Kick implements queue.Queue.
func (c *Client) Kick(ctx context.Context, id uint64) error {
	return c.change(ctx, Request{Method: "POST", Path: JobPath(id, "/kick")})
}

// Bury implements queue.Queue.
func (c *Client) Bury(ctx context.Context, id uint64, force bool) error {
	return c.change(ctx, Request{Method: "POST", Path: JobPath(id, "/bury"), Query: forced(force)})
}

// Delete implements queue.Queue.
func (c *Client) Delete(ctx context.Context, id uint64, force bool) error {
	return c.change(ctx, Request{Method: "DELETE", Path: JobPath(id, ""), Query: forced(force)})
}

// Release takes a job from its worker and makes it ready.
func (c *Client) Release(ctx context.Context, id uint64) error {
	return c.change(ctx, Request{Method: "POST", Path: JobPath(id, "/release")})
}

func forced(force bool) url.Values {
	if !force {
		return nil
	}
	return url.Values{"force": {fmt.Sprint(force)}}
}
