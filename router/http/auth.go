package http

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
)

// A Door configures how the clients of a listener are treated.
type Door struct {
	// Anonymous is the role of a request without a token; see access.Preset. If it is empty, the
	// access file gives an identity to the request.
	Anonymous string
	// Last: a follower does not forward requests to the leader, since another server has
	// forwarded them already.
	Last bool
	// Callers: only servers of the cluster connect here. They are trusted to name the client of
	// each request; without an access file also its role. It implies Last.
	Callers bool
}

// doorOf returns the Door of a request's listener; in tests there may be none.
func doorOf(r *http.Request) Door {
	if d, ok := r.Context().Value(listenerKey{}).(*Door); ok {
		return *d
	}
	return Door{}
}

// A fromServer is a connection from another server, to a Door with Callers.
type fromServer struct{ net.Conn }

// NetConn returns the connection below.
func (c *fromServer) NetConn() net.Conn { return c.Conn }

// callerHeader describes the client of a forwarded request. Only a Door with Callers reads it;
// for other clients it has no effect.
const callerHeader = "Polystalk-Caller"

// A caller is a client that another server has identified.
type caller struct {
	name   string // of the identity
	method access.Method
	role   string        // without an access file
	sees   access.Bodies // without an access file
	client string        // address
	id     string        // of the request, on both servers
}

// text returns the caller as a value of callerHeader.
func (c *caller) text() string {
	return url.Values{
		"name": {c.name}, "method": {c.method.String()}, "role": {c.role},
		"sees": {c.sees.String()}, "client": {c.client}, "request": {c.id},
	}.Encode()
}

// callerOf returns the caller of a request on a Door with Callers, else nil. The error is a
// *wire.Problem: the header is incomplete.
func callerOf(r *http.Request) (*caller, error) {
	if !doorOf(r).Callers {
		return nil, nil
	}
	c, err := readCaller(r.Header.Values(callerHeader))
	if err != nil {
		return nil, wire.BadRequest.With(callerHeader, "another server has not described its client: "+err.Error(), "run the same version on all servers of the cluster")
	}
	return c, nil
}

// readCaller reads the values of the header.
func readCaller(texts []string) (*caller, error) {
	if len(texts) != 1 {
		return nil, fmt.Errorf("the request has this header %d times", len(texts))
	}
	v, err := url.ParseQuery(texts[0])
	if err != nil {
		return nil, err
	}
	c := &caller{name: v.Get("name"), role: v.Get("role"), client: v.Get("client"), id: v.Get("request")}
	var known bool
	if c.method, known = access.ParseMethod(v.Get("method")); !known {
		return nil, fmt.Errorf("the method %q is unknown", v.Get("method"))
	}
	if c.sees, err = access.ParseBodies(v.Get("sees")); err == nil && c.id == "" {
		err = errors.New("the request has no id")
	}
	return c, err
}

// isServer reports whether the client is root, or the server's own user, on the machine of the other
// server: that has the rights of the other server itself. Another client of a server without an access
// file has the method server as well, and no such name.
func (c *caller) isServer() bool {
	return c.method == access.ByServer && strings.HasPrefix(c.name, userPrefix)
}

// identify finds the client's credential: its token, its session, its user, its network, or the
// default. Without an access file it is the role of the user or of the listener.
func (a *API) identify(c *call) error {
	ids, door := a.opts.Access, doorOf(c.R)
	switch {
	case c.caller != nil && ids != nil && !c.caller.isServer():
		c.By = ids.Named(c.caller.name, c.caller.method)
		return nil
	case c.caller != nil:
		c.By = access.Preset(c.caller.role, c.caller.name)
		return nil
	}
	if header := c.R.Header.Values("Authorization"); len(header) > 0 {
		c.By = access.Preset("none", "")
		scheme, token, _ := strings.Cut(header[0], " ")
		if len(header) > 1 || !strings.EqualFold(scheme, "Bearer") {
			return wire.NoToken.Problem("the header Authorization is not of the form Bearer TOKEN")
		}
		if ids == nil {
			return a.unknownToken(c)
		}
		if err := a.checkSecrecy(c); err != nil {
			return err
		}
		if by := ids.Token(token); by != nil {
			c.By = by
			return nil
		}
		return a.unknownToken(c)
	}
	if a.sessions != nil {
		if cookie, err := c.R.Cookie(a.cookie); err == nil {
			if c.By = a.sessions.Find(cookie.Value, time.Now()); c.By != nil {
				return nil
			}
		}
	}
	uid, local := localUser(c.R)
	if ids == nil || door.Anonymous != "" {
		c.By = access.Preset(door.Anonymous, "")
		if local && (uid == 0 || uid == uint32(os.Geteuid())) {
			c.By = access.Preset("admin", userPrefix+strconv.FormatUint(uint64(uid), 10))
		}
		return nil
	}
	addr, _ := netip.ParseAddr(c.client) // invalid for a unix socket
	c.By = ids.Client(uid, local, addr)
	return nil
}

// userPrefix begins the name of a client that has the rights of its user: there is no access file.
const userPrefix = "uid "

// localUser returns the user of the process at the other end of a unix socket. A proxy there has
// no such user, since it passes requests of others.
func localUser(r *http.Request) (uid uint32, ok bool) {
	if r.Header["X-Forwarded-For"] != nil || r.Header["Forwarded"] != nil {
		return 0, false
	}
	c, _ := r.Context().Value(connKey{}).(net.Conn)
	return access.ConnUser(transport(c))
}

// checkSecrecy refuses a token that others could read, whether it is valid or not. The server has an
// access file.
func (a *API) checkSecrecy(c *call) error {
	addr, err := netip.ParseAddr(c.client)
	if c.secure || err != nil || addr.IsLoopback() || a.opts.Access.PlaintextTokens() { // err: a unix socket
		return nil
	}
	return wire.NoToken.With("", "the token was sent without TLS, so others may know it: it is not accepted",
		"make another token, and send it by https: give --http-tls-cert, or let a proxy of --http-trusted-proxy send X-Forwarded-Proto: https; on a safe network set plaintext-tokens = true in the file of --access-file")
}

// unknownToken counts and logs a token that is not in the access file, as the protocols do.
func (a *API) unknownToken(c *call) error {
	a.op.TokenRefused(c.client)
	return wire.NoToken.With("", "the token is unknown", "put the token's SHA-256 into the file of --access-file, and send the server SIGHUP")
}

// sees returns how much of job bodies the client may see.
func (a *API) sees(c *call) access.Bodies {
	if c.caller != nil && a.opts.Access == nil {
		return c.caller.sees
	}
	return c.By.Sees(a.rules.Load().Bodies)
}

// newCookieName makes the name of the session cookie. Each process has another name, because
// browsers send a cookie to all ports of a host, and sessions belong to one process.
func newCookieName() string { return "polystalk-session-" + newID() }

// login begins a session, so that a browser need not store the token.
func (a *API) login(c *call, in *wire.Login) error {
	if a.sessions == nil {
		return wire.NotFound.With("", "the server has no tokens, so it has no sessions", "start the server with --access-file")
	}
	if err := a.checkSecrecy(c); err != nil {
		return err
	}
	id, by := a.sessions.Begin(in.Token, time.Now())
	if by == nil {
		return a.unknownToken(c)
	}
	http.SetCookie(c.W, a.newCookie(c, id, int(access.SessionIdle/time.Second)))
	c.By = by
	return a.whoami(c)
}

// logout ends the session of the request, if there is one.
func (a *API) logout(c *call) error {
	if cookie, err := c.R.Cookie(a.cookie); err == nil && a.sessions != nil {
		a.sessions.End(cookie.Value)
	}
	http.SetCookie(c.W, a.newCookie(c, "", -1))
	return c.done()
}

// newCookie makes a cookie. It has no Path, so the browser sends it only to paths of the API,
// also behind a proxy that adds a prefix.
func (a *API) newCookie(c *call, id string, maxAge int) *http.Cookie {
	return &http.Cookie{
		Name: a.cookie, Value: id, MaxAge: maxAge,
		HttpOnly: true, Secure: c.secure, SameSite: http.SameSiteStrictMode,
	}
}

// checkHost refuses a request for an unknown host name, against DNS rebinding: a site can point
// its name to the server's address, and then the browser lets the site's pages read the answers.
// An address cannot be such a name.
func (a *API) checkHost(r *http.Request) error {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.Trim(host, "[]"), ".")
	if _, err := netip.ParseAddr(host); err == nil || strings.EqualFold(host, "localhost") {
		return nil
	}
	if slices.ContainsFunc(a.rules.Load().Hosts, func(name string) bool { return strings.EqualFold(name, host) }) {
		return nil
	}
	return wire.WrongHost.With("Host", fmt.Sprintf("the name %q is not allowed", r.Host), wire.WrongHost.Remedy)
}

// checkOrigin refuses a change that a page of another site requests.
func (a *API) checkOrigin(r *http.Request) error {
	if err := a.rules.Load().origins.Check(r); err != nil {
		origin := r.Header.Get("Origin")
		detail := fmt.Sprintf("its origin is %q, but it was sent to %q", origin, r.Host)
		if origin == "" {
			detail = fmt.Sprintf("Sec-Fetch-Site is %q", r.Header.Get("Sec-Fetch-Site"))
		}
		return wire.CrossOrigin.With("Origin", detail, wire.CrossOrigin.Remedy)
	}
	return nil
}

// clientOf returns the client's address, and whether it uses TLS. Behind a trusted proxy, the
// client is the last address in X-Forwarded-For that is not a trusted proxy. The addresses
// before it are ignored, since the client may have written them.
func (a *API) clientOf(r *http.Request) (addr string, secure bool) {
	addr, secure = r.RemoteAddr, r.TLS != nil
	ap, err := netip.ParseAddrPort(addr)
	if err != nil {
		return "unix", secure // the peer of a unix socket has no address
	}
	addr = ap.Addr().Unmap().String()
	if !a.isProxy(ap.Addr()) {
		return addr, secure
	}
	if proto := r.Header.Get("X-Forwarded-Proto"); proto != "" {
		secure = strings.EqualFold(strings.TrimSpace(proto), "https")
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		ip, err := netip.ParseAddr(strings.TrimSpace(hop))
		if err != nil {
			break
		}
		addr = ip.Unmap().String()
		if !a.isProxy(ip) {
			break
		}
	}
	return addr, secure
}

// isProxy reports whether ip is a trusted proxy.
func (a *API) isProxy(ip netip.Addr) bool {
	return slices.ContainsFunc(a.rules.Load().Proxies, func(p netip.Prefix) bool { return p.Contains(ip.Unmap()) })
}

// unprefixed returns the request without the prefix of Rules. A path that is not clean keeps the
// prefix and is not found, because the mux would redirect it to a path without the prefix.
func (a *API) unprefixed(r *http.Request) *http.Request {
	prefix := a.rules.Load().Prefix
	rest, ok := strings.CutPrefix(r.URL.EscapedPath(), prefix)
	if prefix == "" || !ok || !strings.HasPrefix(rest, "/") {
		return r
	}
	plain, err := url.PathUnescape(rest)
	if clean := path.Clean(rest); err != nil || rest != clean && rest != clean+"/" {
		return r
	}
	to, u := *r, *r.URL
	u.Path, u.RawPath = plain, rest
	to.URL = &u
	return &to
}
