// Package probe asks a server that runs whether it is well, for those who can only start a
// program: containers, whose images have neither a shell nor curl, and scripts.
//
// The server is found as it was told to be found: a probe reads the same flags, variables
// and files, and asks the first address of --http.
package probe

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"syscall"

	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
)

// A place is where a server serves HTTP.
type place struct {
	network, address string // tcp or unix
	base             string // begins the URL of a request; for a unix socket its host stands for nothing
	shown            string // begins the URL in messages
}

// Ask asks the server of c for path, and returns the first line of an answer that says that
// all is well. Everything else is a fault, of one line: also when ctx ends before the answer
// is there.
func Ask(ctx context.Context, c *config.Config, path string) (string, error) {
	u, err := url.ParseRequestURI(path)
	if err != nil || !strings.HasPrefix(path, "/") {
		return "", fault.New(fault.Usage, "flag --probe: %q is no path: give one of the server's, as in /readyz", path)
	}
	p, err := find(c)
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+u.RequestURI(), nil)
	if err != nil {
		return "", fault.New(fault.Usage, "flag --probe: %v: give a path of the server's, as in /readyz", err)
	}
	shown := p.shown + u.RequestURI()
	res, err := p.client().Do(req)
	if err != nil {
		return "", unanswered(shown, err)
	}
	defer res.Body.Close()
	line, err := bufio.NewReader(io.LimitReader(res.Body, lineMax)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", unanswered(shown, err)
	}
	line = strings.Map(visible, strings.TrimSpace(line))
	if res.StatusCode != http.StatusOK {
		return "", fault.New(fault.System, "%s: %s: %s: its log says more, and so does %s?verbose", shown, res.Status, line, p.shown+u.Path)
	}
	return line, nil
}

// lineMax bounds the line that is shown. In bytes.
const lineMax = 512

// visible keeps what might come from another server from doing something to a terminal.
func visible(r rune) rune {
	if r < ' ' || r == 0x7F {
		return '?'
	}
	return r
}

// find is the first address at which a server with that configuration serves HTTP.
func find(c *config.Config) (place, error) {
	if len(c.HTTP.Addresses) == 0 {
		return place{}, fault.New(fault.Usage, "flag --probe: nothing says where the server serves HTTP: give the --http that it has, as in --http 127.0.0.1:11380")
	}
	a := c.HTTP.Addresses[0]
	scheme := c.HTTP.Scheme() + "://"
	if a.Path != "" {
		return place{"unix", a.Path, scheme + "localhost", "unix:" + a.Path + ":"}, nil
	}
	port, err := config.LookupPort(a.Port)
	if err != nil || port == 0 {
		return place{}, fault.New(fault.Usage, "%s: %q leaves the port to the system, and only the server knows which: give the one of its log's line \"serving HTTP\"", a.From, a.Given)
	}
	address := net.JoinHostPort(reachable(a.Host), a.Port)
	return place{"tcp", address, scheme + address, scheme + address}, nil
}

// reachable is a host at which a server that listens on host can be found from its own
// machine: where it listens everywhere, that is the loopback address.
func reachable(host string) string {
	ip, err := netip.ParseAddr(host)
	switch {
	case host == "":
		return "localhost"
	case err != nil || !ip.IsUnspecified():
		return host
	case ip.Is4():
		return "127.0.0.1"
	}
	return "::1"
}

// client is one that asks p, and nobody else: an answer that leads elsewhere is an answer.
func (p place) client() *http.Client {
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, p.network, p.address)
			},
			// The certificate is made out to the name by which others know the server, which
			// is not the address that is asked here; and no secret is sent.
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		},
	}
}

// unanswered says why no answer has come.
func unanswered(shown string, err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fault.New(fault.System, "%s: no answer in time: the server is stuck, or the machine is; its log may say why", shown)
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, os.ErrNotExist):
		return fault.New(fault.System, "%s: nobody listens there: start the server, or give the --http that it has", shown)
	case errors.Is(err, os.ErrPermission):
		return fault.New(fault.System, "%s: this user may not connect: ask as the server's user, or as one of its group", shown)
	}
	return fault.New(fault.System, "%s: %v: see whether it is polystalkd's --http, with TLS or without", shown, fault.Cause(err))
}
