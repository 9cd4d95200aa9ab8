package http

import (
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"

	wire "polystalk/codec/admin"
	"polystalk/shard/core"
)

// number reads a parameter that is a number; absent: as without it.
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
		return 0, wire.BadRequest.With(name, fmt.Sprintf("%q is no such number", q.Get(name)), remedy)
	}
	return n, nil
}

// one reads a parameter that is one of some words, of which the first is that without it.
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

// nameTube replaces the tube - of a path by the parameter tube. Browsers and proxies resolve a
// segment . or .. of a path, and http.ServeMux reads the segment %2F as the end of the path.
func nameTube(c *Call) {
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

// tubeOf is the name of the tube in the path, byte for byte.
func tubeOf(c *Call) string { return c.R.PathValue("tube") }

// jobOf is the id of a job in the path.
func jobOf(c *Call) (core.JobID, error) {
	n, err := idOf(c, "a job", "give a whole number from 1 on")
	return core.JobID(n), err
}

// idOf is the id in the path, of what is said.
func idOf(c *Call, of, remedy string) (uint64, error) {
	text := c.R.PathValue("id")
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n == 0 {
		return 0, wire.BadRequest.With("id", fmt.Sprintf("%q is no id of %s", text, of), remedy)
	}
	return n, nil
}
