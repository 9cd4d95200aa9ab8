package client

import (
	"context"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// A Target names one server.
type Target struct {
	// Base is the address of polystalkd's API without /api/v1 and without a trailing slash; nil:
	// the server speaks beanstalkd's protocol. For a unix socket it is http://localhost.
	Base *url.URL

	Network string // tcp or unix
	Address string // HOST:PORT or a path
	Name    string // as given to --server
}

// The places in which an operator names the server.
const (
	serverFlag = "--server"
	Variable   = "POLYSTALK_SERVER"
)

const forms = "give http://HOST:PORT, https://HOST:PORT, unix:PATH, beanstalk://HOST:PORT or beanstalk+unix:PATH"

// parseTarget reads the name of a server.
func parseTarget(name string) (Target, error) {
	bad := func(why string) (Target, error) {
		return Target{}, Errorf(Usage, "%s %q %s: %s", serverFlag, name, why, forms)
	}
	for prefix, http := range map[string]bool{"unix:": true, "beanstalk+unix:": false} {
		if path, ok := strings.CutPrefix(name, prefix); ok {
			if strings.HasPrefix(path, "///") {
				path = path[2:] // unix:///run/… is as good as unix:/run/…
			}
			if path == "" || strings.HasPrefix(path, "//") {
				return bad("has no socket path")
			}
			t := Target{Network: "unix", Address: path, Name: name}
			if http {
				t.Base = &url.URL{Scheme: "http", Host: "localhost"}
			}
			return t, nil
		}
	}
	u, err := url.Parse(name)
	if err != nil || u.Host == "" {
		return bad("is not an address")
	}
	switch {
	case u.User != nil:
		return bad("has a user or password, which polystalkd does not take; a token is given by --token-file")
	case u.RawQuery != "" || u.Fragment != "":
		return bad("has more than an address")
	}
	ports := map[string]string{"http": "11380", "https": "443", "beanstalk": "11300"}
	port := u.Port()
	switch standard, ok := ports[u.Scheme]; {
	case !ok:
		return bad("has an unknown scheme")
	case u.Hostname() == "":
		return bad("has no host")
	case port == "":
		port = standard
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return bad("has an invalid port")
	}
	t := Target{Network: "tcp", Address: net.JoinHostPort(u.Hostname(), port), Name: name}
	if u.Scheme == "beanstalk" {
		if strings.Trim(u.Path, "/") != "" {
			return bad("has more than an address")
		}
		return t, nil
	}
	t.Base = &url.URL{Scheme: u.Scheme, Host: t.Address, Path: strings.TrimRight(u.Path, "/")}
	if u.Scheme == "https" && port == "443" {
		t.Base.Host = u.Host // as in the certificate and proxies
	}
	return t, nil
}

// Places lists the servers to try, in this order, if none is named.
var Places = []string{"unix:/run/polystalkd/http.sock", "http://127.0.0.1:11380", "beanstalk://127.0.0.1:11300"}

// Find returns the server with this name. If the name is empty, it returns the first of places that
// accepts a connection.
func Find(ctx context.Context, name string, places []string) (Target, error) {
	if name != "" {
		return parseTarget(name)
	}
	for _, place := range places {
		t, err := parseTarget(place)
		if err != nil {
			return t, err
		}
		if t.Network == "unix" {
			if _, err := os.Stat(t.Address); err != nil {
				continue
			}
		}
		d := net.Dialer{Timeout: time.Second}
		conn, err := d.DialContext(ctx, t.Network, t.Address)
		if err == nil {
			conn.Close()
			return t, nil
		}
	}
	return Target{}, Errorf(System, "there is no server at %s: start polystalkd with --http 127.0.0.1:11380, or name another one by %s or %s",
		strings.Join(places, ", "), serverFlag, Variable)
}

// Token reads a token from a file. Without a file it returns an empty token.
func Token(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", Errorf(Usage, "the file of the token cannot be read: %v: give the one that holds it by --token-file", err)
	}
	token := strings.TrimSpace(string(b))
	for _, c := range []byte(token) {
		if c <= ' ' || c >= 0x7F {
			return "", Errorf(Usage, "%s holds more than a token: put the token there alone, on one line", file)
		}
	}
	if token == "" {
		return "", Errorf(Usage, "%s holds no token: put one there, on one line", file)
	}
	return token, nil
}
