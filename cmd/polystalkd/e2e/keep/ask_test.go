package keep

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"polystalk/cmd/polystalkd/e2e/daemon"
	wire "polystalk/codec/admin"
	"polystalk/codec/conversation"
)

// An asker is an operator's client, who is told when the process was killed.
type asker struct{ http *http.Client }

// askerOf is one of a process that serves HTTP on a unix socket.
func askerOf(socket string) asker {
	return asker{&http.Client{Timeout: daemon.Hang, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}}
}

// ask makes a request. The error is errKilled if nothing was answered.
func (a *asker) ask(method, path string, in, out any) (code int, err error) {
	body, err := json.Marshal(in)
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequest(method, "http://localhost/api/v1"+path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	if in == nil {
		req.Body, req.ContentLength = nil, 0
	} else {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return 0, errKilled
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, errKilled
	}
	if resp.StatusCode/100 == 2 && out != nil {
		err = json.Unmarshal(b, out)
	}
	if resp.StatusCode >= 500 {
		err = fmt.Errorf("%s %s: %s", method, path, b)
	}
	return resp.StatusCode, err
}

// list is all jobs of a tube, or without a name all there are, by their tokens.
func (a *asker) list(tube string) (all map[string][]wire.Job, err error) {
	all = make(map[string][]wire.Job)
	path := "/jobs"
	if tube != "" {
		path = "/tubes/" + tube + "/jobs"
	}
	for next := ""; ; {
		var part wire.Jobs
		code, err := a.ask("GET", path+"?body=full&limit=1000"+next, nil, &part)
		if err != nil || code == 404 { // with its last job
			return all, err
		}
		if code == 429 { // others list as well
			continue
		}
		for _, j := range part.Jobs {
			token := tokenOf(*j.Text)
			all[token] = append(all[token], j)
		}
		if part.Next == "" {
			return all, nil
		}
		next = "&after=" + part.Next
	}
}

// talk sends a command and takes the first line of what is answered, and the body after it.
func talk(c *conversation.Client, format string, args ...any) (head, body string, err error) {
	fed := daemon.Feed(c, fmt.Appendf(nil, format, args...))
	reply, err := c.Reply(conversation.Patience)
	<-fed
	if err != nil {
		return "", "", errKilled
	}
	head, body, _ = strings.Cut(string(reply), "\r\n")
	return head, strings.TrimSuffix(body, "\r\n"), nil
}
