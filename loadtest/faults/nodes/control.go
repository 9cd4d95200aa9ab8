package nodes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"time"

	"polystalk/codec/admin"
)

// socketName is where a node's directory has the socket that operators ask.
const socketName = "cluster.sock"

// request asks n at its socket, and reads the answer into to, which may be nil.
func (n *Node) request(ctx context.Context, method, path string, body, to any) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var in io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return err
		}
		in = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://localhost/api/v1"+path, in)
	if err != nil {
		return err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	t := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(n.Dir, socketName))
	}}
	res, err := (&http.Client{Transport: t}).Do(req)
	if err != nil {
		return fmt.Errorf("%s: %w", n.Name, err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("%s: %s %s: %w", n.Name, method, path, err)
	}
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("%s: %s %s: %s: %.300s", n.Name, method, path, res.Status, b)
	}
	if to == nil {
		return nil
	}
	return json.Unmarshal(b, to)
}

// Status is what n says of its cluster.
func (n *Node) Status(ctx context.Context) (admin.Cluster, error) {
	var c admin.Cluster
	return c, n.request(ctx, "GET", "/cluster", nil, &c)
}

// Transfer has to lead in place of n.
func (n *Node) Transfer(ctx context.Context, to *Node) error {
	return n.request(ctx, "POST", "/cluster/transfer", admin.ClusterTransfer{Node: to.Name}, nil)
}

// Remove has another node belong to n's cluster no more.
func (n *Node) Remove(ctx context.Context, other *Node) error {
	return n.request(ctx, "DELETE", "/cluster/members/"+url.PathEscape(other.Name), nil, nil)
}

// errNoLeader is a cluster that has none, or in which nobody answers.
var errNoLeader = errors.New("no server says that it leads")

// Leader is the node that leads by its own account, in the latest term, and what it says
// of the cluster. Whichever is asked hands on to the one that it believes to lead.
func (f *Fleet) Leader(ctx context.Context) (*Node, admin.Cluster, error) {
	var leader *Node
	var latest admin.Cluster
	all := f.All()
	for _, n := range all {
		if !n.Running() {
			continue
		}
		within, cancel := context.WithTimeout(ctx, time.Second)
		c, err := n.Status(within)
		cancel()
		if err != nil || c.Role != "leader" || leader != nil && c.Term <= latest.Term {
			continue
		}
		for _, o := range all {
			if o.Name == c.Node {
				leader, latest = o, c
			}
		}
	}
	if leader == nil {
		return nil, latest, errNoLeader
	}
	return leader, latest, nil
}
