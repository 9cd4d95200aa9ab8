package join

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"polystalk/router/cluster"
)

// Path is where a node is asked to let another join, by POST, over a connection of kind Admin.
const Path = "/cluster/join"

// answerMax is the most that is read of a question or an answer, in bytes.
const answerMax = 16 << 10

// A Question is that of a node that wants to join, as JSON.
type Question struct {
	ID      string `json:"id"` // 16 hexadecimal digits
	Name    string `json:"name"`
	Address string `json:"address"` // HOST:PORT
	Standby bool   `json:"standby"`
}

// question is that of a member to be.
func question(one *cluster.Member) *Question {
	return &Question{ID: fmt.Sprintf("%0*x", idDigits, one.ID), Name: one.Name, Address: one.Addr, Standby: one.Standby}
}

// An Answer is what the node says that was asked. If it is not the one that leads it says which
// one does, and nothing else.
type Answer struct {
	Cluster string `json:"cluster,omitempty"` // 16 hexadecimal digits; the node is a member now
	Leader  string `json:"leader,omitempty"`  // HOST:PORT of who leads; empty: nobody, as far as is known
	Refused string `json:"refused,omitempty"` // why it cannot join, and what to do
}

// A Refusal says that a node cannot join, in the words of the one that leads. To ask again is of
// no use before something else was done.
type Refusal struct{ Text string }

func (r *Refusal) Error() string { return "the cluster refuses this server: " + r.Text }

// A Dial connects to the node at an address.
type Dial func(ctx context.Context, addr string) (net.Conn, error)

// ask asks the node at one address to let another join. The error is a *Refusal if it is never
// to be asked again.
func ask(ctx context.Context, dial Dial, addr string, one *cluster.Member) (*Answer, error) {
	body, err := json.Marshal(question(one))
	if err != nil {
		return nil, err
	}
	client := http.Client{Transport: &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, addr) },
		DisableKeepAlives: true, Proxy: nil,
	}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://node"+Path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking the server at %s: %w", addr, errors.Unwrap(err)) // without the URL, which is none
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, answerMax))
	if err != nil {
		return nil, fmt.Errorf("asking the server at %s: %w", addr, err)
	}
	var a Answer
	if err := json.Unmarshal(b, &a); err != nil {
		return nil, fmt.Errorf("the server at %s answers %s, which no server of this release does", addr, resp.Status)
	}
	if a.Refused != "" {
		return nil, &Refusal{a.Refused}
	}
	return &a, nil
}
