package web

import (
	"net/http"
	"net/url"
	"strings"
)

// prefixMost is how many parts of a path may be a proxy's: each is looked up.
const prefixMost = 8

// roots are the first parts of the paths of all routes; a prefix cannot begin with one.
type roots map[string]bool

func (r roots) add(pattern string) {
	_, path, _ := strings.Cut(pattern, "/")
	if first, _, _ := strings.Cut(path, "/"); !strings.HasPrefix(first, "{") {
		r[first] = true
	}
}

// unprefixed is a request as it would be without what a proxy that serves this server below
// a path of its own has left before the path; nil: there is nothing that could be that. So
// nobody has to be told of a prefix, whether the proxy takes it off or not.
func (s *Server) unprefixed(r *http.Request) *http.Request {
	path := r.URL.EscapedPath()
	if first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/"); s.roots[first] {
		return nil
	}
	for range prefixMost {
		i := strings.IndexByte(strings.TrimPrefix(path, "/"), '/')
		if i < 0 {
			return nil
		}
		path = path[i+1:]
		plain, err := url.PathUnescape(path)
		if err != nil {
			return nil
		}
		to, u := *r, *r.URL
		u.Path, u.RawPath = plain, path
		to.URL = &u
		if s.Pattern(&to) != "" {
			return &to
		}
	}
	return nil
}
