package web

import (
	"net/http"
	"net/url"
	"path"
	"strings"
)

// prefixMost is how many parts of a path may be a proxy's: each is looked up.
const prefixMost = 8

// roots are the first parts of the paths of all routes; a prefix cannot begin with one.
type roots map[string]bool

func (r roots) add(pattern string) {
	_, rest, _ := strings.Cut(pattern, "/")
	if first, _, _ := strings.Cut(rest, "/"); !strings.HasPrefix(first, "{") {
		r[first] = true
	}
}

// has reports whether a path begins as that of a route does.
func (r roots) has(path string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return r[first]
}

// unprefixed is a request as it would be without what a proxy that serves this server below
// a path of its own has left before the path; nil: there is nothing that could be that. So
// nobody has to be told of a prefix, whether the proxy takes it off or not.
//
// The path begins where one of the roots stands first, and is that of a route or of none: were
// more taken off, a name in it would be what leads to another route.
func (s *Server) unprefixed(r *http.Request) *http.Request {
	rest := r.URL.EscapedPath()
	if s.roots.has(rest) {
		return nil
	}
	for range prefixMost {
		i := strings.IndexByte(strings.TrimPrefix(rest, "/"), '/')
		if i < 0 {
			return nil
		}
		rest = rest[i+1:]
		if !s.roots.has(rest) && rest != "/" {
			continue
		}
		// The mux leads who asks for a path that is not clean to one that is, which would be
		// without the prefix, and so perhaps another server's.
		if clean := path.Clean(rest); rest != clean && rest != clean+"/" {
			return nil
		}
		plain, err := url.PathUnescape(rest)
		if err != nil {
			return nil
		}
		to, u := *r, *r.URL
		u.Path, u.RawPath = plain, rest
		to.URL = &u
		if rest == "/" && s.Pattern(&to) == "" {
			return nil // the page is there to be read
		}
		return &to
	}
	return nil
}
