package http

import (
	"path"
	"slices"
	"strings"

	wire "polystalk/codec/admin"
)

// A glob is a pattern of tubes' names, as they are shown: * is any characters, ? is one,
// [a-z] is one of those.
type glob struct{ pattern string }

// newGlob reads a pattern; an empty one matches all.
func newGlob(pattern string) (*glob, error) {
	// path.Match keeps * within a part between slashes, which names do not have.
	pattern = strings.ReplaceAll(pattern, "/", "\x00")
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, wire.BadRequest.With("match", "the pattern cannot be read", `write \[ for a bracket; *, ? and [a-z] stand for characters`)
	}
	return &glob{pattern}, nil
}

// anyGlob matches what one of some patterns does.
func anyGlob(patterns []string) (func(name string) bool, error) {
	var all []*glob
	for _, p := range patterns {
		g, err := newGlob(p)
		if err != nil {
			return nil, err
		}
		all = append(all, g)
	}
	return func(name string) bool {
		return slices.ContainsFunc(all, func(g *glob) bool { return g.matches(name) })
	}, nil
}

// matches reports whether the name of a tube does.
func (g *glob) matches(name string) bool {
	if g.pattern == "" || g.pattern == "*" {
		return true
	}
	ok, _ := path.Match(g.pattern, strings.ReplaceAll(shownLabel(name), "/", "\x00"))
	return ok
}

// shownLabel is a tube's name as it stands in labels and in JSON.
func shownLabel(name string) string { return wire.ShownName(name) }
