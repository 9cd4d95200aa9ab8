package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
)

// An API asks a server by HTTP over a unix socket.
type API struct{ http.Client }

// NewAPI returns an API for the socket.
func NewAPI(socket string) *API {
	return &API{http.Client{Timeout: Hang, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}}
}

// Do sends in as JSON and decodes the reply into out, unless they are nil. A status other than 2xx
// is an error unless it is in may. If etag is not empty, the change applies only to that state.
func (a *API) Do(method, path, etag string, in, out any, may ...int) (status int, header http.Header, err error) {
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			return 0, nil, err
		}
	}
	req, err := http.NewRequest(method, "http://localhost"+path, &body)
	if err != nil {
		return 0, nil, err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if etag != "" {
		req.Header.Set("If-Match", etag)
	}
	res, err := a.Client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode/100 == 2 && out != nil {
		err = json.Unmarshal(b, out)
	}
	if err != nil {
		return 0, nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	for _, m := range append(may, 200, 201, 202, 204) {
		if res.StatusCode == m {
			return m, res.Header, nil
		}
	}
	return 0, nil, fmt.Errorf("%s %s: %s: %.500s", method, path, res.Status, b)
}
