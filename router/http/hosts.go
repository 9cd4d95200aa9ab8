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

// checkHost refuses a request for a name that is not the server's. A site may give its own name
// this server's address, and a browser then lets the site's pages read the answers. An address
// cannot be such a name.
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

// checkOrigin refuses what a page of another site has a browser send.
func (s *server) checkOrigin(r *http.Request) error {
	if err := s.rules.Load().origins.Check(r); err != nil {
		origin := r.Header.Get("Origin")
		detail := fmt.Sprintf("its origin is %q, and it is sent to %q", origin, r.Host)
		if origin == "" {
			detail = fmt.Sprintf("Sec-Fetch-Site is %q", r.Header.Get("Sec-Fetch-Site"))
		}
		return wire.CrossOrigin.With("Origin", detail, wire.CrossOrigin.Remedy)
	}
	return nil
}

// clientOf is the address of who asks, and whether he speaks TLS. What proxies say of that
// counts if they are believed; of the addresses in X-Forwarded-For the last that is no such
// proxy's is his, since what stands before it he may have written himself.
func (s *server) clientOf(r *http.Request) (addr string, secure bool) {
	addr, secure = r.RemoteAddr, r.TLS != nil
	ap, err := netip.ParseAddrPort(addr)
	if err == nil {
		addr = ap.Addr().Unmap().String()
	} else {
		addr = "unix" // the peer of a unix socket has none
	}
	if err != nil || !s.isProxy(ap.Addr()) {
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

// isProxy reports whether what comes from ip is believed.
func (s *server) isProxy(ip netip.Addr) bool {
	return slices.ContainsFunc(s.rules.Load().Proxies, func(p netip.Prefix) bool { return p.Contains(ip.Unmap()) })
}

// unprefixed returns the request without the prefix of Rules. The mux redirects from a path that is
// not clean to one without the prefix, so such a path keeps it and is not found.
func (s *server) unprefixed(r *http.Request) *http.Request {
	rest, ok := strings.CutPrefix(r.URL.EscapedPath(), s.rules.Load().Prefix)
	if !ok || len(rest) == len(r.URL.EscapedPath()) || !strings.HasPrefix(rest, "/") {
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
