package http

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"

	wire "polystalk/codec/admin"
)

// checkHost refuses a request for an unknown host name, against DNS rebinding: a site can point
// its name to the server's address, and then the browser lets the site's pages read the answers.
// An address cannot be such a name.
func (s *server) checkHost(r *http.Request) error {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.Trim(host, "[]"), ".")
	if _, err := netip.ParseAddr(host); err == nil || strings.EqualFold(host, "localhost") {
		return nil
	}
	if slices.ContainsFunc(s.rules.Load().Hosts, func(name string) bool { return strings.EqualFold(name, host) }) {
		return nil
	}
	return wire.WrongHost.With("Host", fmt.Sprintf("the name %q is not allowed", r.Host), wire.WrongHost.Remedy)
}

// checkOrigin refuses a change that a page of another site requests.
func (s *server) checkOrigin(r *http.Request) error {
	if err := s.rules.Load().origins.Check(r); err != nil {
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
func (s *server) clientOf(r *http.Request) (addr string, secure bool) {
	addr, secure = r.RemoteAddr, r.TLS != nil
	ap, err := netip.ParseAddrPort(addr)
	if err != nil {
		return "unix", secure // the peer of a unix socket has no address
	}
	addr = ap.Addr().Unmap().String()
	if !s.isProxy(ap.Addr()) {
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
		if !s.isProxy(ip) {
			break
		}
	}
	return addr, secure
}

// isProxy reports whether ip is a trusted proxy.
func (s *server) isProxy(ip netip.Addr) bool {
	return slices.ContainsFunc(s.rules.Load().Proxies, func(p netip.Prefix) bool { return p.Contains(ip.Unmap()) })
}

// unprefixed returns the request without the prefix of Rules. A path that is not clean keeps the
// prefix and is not found, because the mux would redirect it to a path without the prefix.
func (s *server) unprefixed(r *http.Request) *http.Request {
	prefix := s.rules.Load().Prefix
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
