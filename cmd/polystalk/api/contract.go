package api

import (
	"context"
	"encoding/json"
	"strings"
)

// knows reports whether the server says that it has such a request. One that does not tell
// is taken to know it.
func (c *Client) knows(ctx context.Context, r Request) bool {
	if r.Path == contractPath {
		return true
	}
	b, err := c.Get(ctx, contractPath, nil)
	if err != nil {
		return true
	}
	var contract struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if json.Unmarshal(b, &contract) != nil || len(contract.Paths) == 0 {
		return true
	}
	for template, methods := range contract.Paths {
		if _, ok := methods[strings.ToLower(r.Method)]; ok && fits(template, r.Path) {
			return true
		}
	}
	return false
}

const contractPath = "/openapi.json"

// fits reports whether a path is one of a template, in which {name} stands for a segment.
func fits(template, path string) bool {
	path, _, _ = strings.Cut(path, "?")
	t, p := strings.Split(template, "/"), strings.Split(path, "/")
	if len(t) != len(p) {
		return false
	}
	for i := range t {
		if t[i] != p[i] && !strings.HasPrefix(t[i], "{") {
			return false
		}
	}
	return true
}
