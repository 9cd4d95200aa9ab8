package api

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"

	"polystalk/codec/admin"
)

// OperationPath is the path of an operation.
func OperationPath(id uint64) string { return "/operations/" + strconv.FormatUint(id, 10) }

// Cancel has an operation end. One that has ended stays as it is.
func (c *Client) Cancel(ctx context.Context, id uint64) error {
	return c.change(ctx, Request{Method: "DELETE", Path: OperationPath(id)})
}

// Transfer moves or copies a job to a tube; how is move or copy.
func (c *Client) Transfer(ctx context.Context, id uint64, how, to string) ([]byte, error) {
	a, err := c.Do(ctx, Request{Method: "POST", Path: JobPath(id, "/"+how), JSON: admin.NewTransfer{To: &to}})
	return a.Document, err
}

// Edit changes a job that still has a tag; any tag, if it is empty.
func (c *Client) Edit(ctx context.Context, id uint64, e admin.EditJob, tag string, force bool) error {
	return c.change(ctx, Request{Method: "PATCH", Path: JobPath(id, ""), Query: forced(force), JSON: editDocument(e), IfMatch: tag})
}

// editDocument leaves out what stays as it is: the server refuses null.
func editDocument(e admin.EditJob) map[string]any {
	all := make(map[string]any)
	add := func(name string, v *uint32) {
		if v != nil {
			all[name] = *v
		}
	}
	add("pri", e.Pri)
	add("delay_seconds", e.DelaySeconds)
	add("ttr_seconds", e.TTRSeconds)
	if e.Body != nil {
		all["body"] = *e.Body
	}
	if e.BodyBase64 != nil {
		all["body_base64"] = *e.BodyBase64
	}
	return all
}

// Flush ends the jobs of a tube in some states; asOf may be that of a dry run before.
func (c *Client) Flush(ctx context.Context, tube string, states []string, dryRun bool, asOf string) (f admin.Flushed, document []byte, err error) {
	query := url.Values{"dry_run": {strconv.FormatBool(dryRun)}}
	set(query, "state", strings.Join(states, ","))
	set(query, "as_of", asOf)
	a, err := c.Do(ctx, Request{Method: "DELETE", Path: TubePath(tube, "/jobs"), Query: query})
	if err != nil {
		return f, nil, err
	}
	if err := json.Unmarshal(a.Document, &f); err != nil {
		return f, nil, c.unread("jobs")
	}
	return f, a.Document, nil
}

// Kill closes a connection.
func (c *Client) Kill(ctx context.Context, id uint64) error {
	return c.change(ctx, Request{Method: "DELETE", Path: "/connections/" + strconv.FormatUint(id, 10)})
}
