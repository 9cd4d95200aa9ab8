package http

import (
	"fmt"
	"math"
	"net/url"
	"path"
	"strconv"
	"strings"

	wire "polystalk/codec/admin"
	"polystalk/shard/core"
)

// number reads a numeric parameter; without is its value if it is absent.
func number(q url.Values, name string, without, least, most uint64) (uint64, error) {
	if !q.Has(name) {
		return without, nil
	}
	n, err := strconv.ParseUint(q.Get(name), 10, 64)
	if err != nil || n < least || n > most {
		remedy := fmt.Sprintf("give a whole number from %d on", least)
		if most < math.MaxUint64 {
			remedy = fmt.Sprintf("give a whole number from %d to %d", least, most)
		}
		return 0, wire.BadRequest.With(name, fmt.Sprintf("%q is not a number in this range", q.Get(name)), remedy)
	}
	return n, nil
}

// one reads a parameter that must be one of words; the first word is the default.
func one(q url.Values, name string, words ...string) (string, error) {
	if !q.Has(name) {
		return words[0], nil
	}
	for _, w := range words {
		if q.Get(name) == w {
			return w, nil
		}
	}
	return "", wire.BadRequest.With(name, fmt.Sprintf("%q is unknown", q.Get(name)), fmt.Sprintf("give one of %q", words))
}

// isTrue reads a parameter that is false or true; the default is false.
func isTrue(q url.Values, name string) (bool, error) {
	word, err := one(q, name, "false", "true")
	return word == "true", err
}

// withBody adapts a handler that takes a JSON body.
func withBody[T any](handler func(c *call, in *T) error) func(c *call) error {
	return func(c *call) error {
		in := new(T)
		if err := c.decode(in); err != nil {
			return err
		}
		return handler(c, in)
	}
}

// withJob adapts a handler that takes the id of the job in the path.
func withJob(handler func(c *call, id core.JobID) error) func(c *call) error {
	return func(c *call) error {
		id, err := idOf(c, "a job", "give a whole number from 1 on")
		if err != nil {
			return err
		}
		return handler(c, core.JobID(id))
	}
}

// nameTube replaces the tube - of a path by the parameter tube. Browsers and proxies resolve
// the segments . and .. of a path, and http.ServeMux ends the path at the segment %2F.
func nameTube(c *call) {
	q, err := url.ParseQuery(c.R.URL.RawQuery)
	if c.R.PathValue("tube") != "-" || err != nil || len(q["tube"]) != 1 {
		return
	}
	name := q.Get("tube")
	c.R.SetPathValue("tube", name)
	// The audit shows the path, and must name the tube.
	const tubes = "/api/v1/tubes/"
	below := strings.TrimPrefix(c.R.URL.Path, tubes+"-")
	c.R.URL.Path, c.R.URL.RawPath = tubes+name+below, tubes+wire.PathName(name)+below
	q.Del("tube")
	c.R.URL.RawQuery = q.Encode()
}

// tubeOf returns the name of the tube in the path, byte for byte.
func tubeOf(c *call) string { return c.R.PathValue("tube") }

// idOf returns the id in the path. of is what the id belongs to, such as "a job", for problems.
func idOf(c *call, of, remedy string) (uint64, error) {
	text := c.R.PathValue("id")
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n == 0 {
		return 0, wire.BadRequest.With("id", fmt.Sprintf("%q is not the id of %s", text, of), remedy)
	}
	return n, nil
}

// newGlob returns a function that matches tube names, as they are shown, with a pattern: *
// matches any characters, ? one, and [a-z] one of a range. An empty pattern matches all names.
func newGlob(pattern string) (func(name string) bool, error) {
	if pattern == "" || pattern == "*" {
		return func(string) bool { return true }, nil
	}
	// In path.Match, * matches no slash, so slashes are replaced.
	pattern = strings.ReplaceAll(pattern, "/", "\x00")
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, wire.BadRequest.With("match", "the pattern cannot be read", `write \[ for a bracket; *, ? and [a-z] stand for characters`)
	}
	return func(name string) bool {
		ok, _ := path.Match(pattern, strings.ReplaceAll(wire.ShownName(name), "/", "\x00"))
		return ok
	}, nil
}

// anyGlob returns a function that matches the names that at least one pattern matches.
func anyGlob(patterns []string) (func(name string) bool, error) {
	match := func(string) bool { return false }
	for _, p := range patterns {
		glob, err := newGlob(p)
		if err != nil {
			return nil, err
		}
		before := match
		match = func(name string) bool { return before(name) || glob(name) }
	}
	return match, nil
}
