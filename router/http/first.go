package http

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// first are the modules that every page needs, and those of the page that is opened first, each
// after those that it imports. They are sent as one, since a browser asks for each module by
// itself, and for what that imports only when it has it.
var first = []string{"api.mjs", "format.mjs", "state.mjs", "live.mjs", "parts.mjs", "graph.mjs", "overview.mjs", firstModule}

// firstModule is the name under which they are sent, and the last of them.
const firstModule = "app.mjs"

// importLine is how a module imports another: a statement, on a line of its own.
var importLine = regexp.MustCompile(`(?m)^import (.+) from '\./([^']+)';\n`)

// joined makes one module of the first ones, by their texts: what they import of each other is
// there, and what they import of others is imported once. They may not have two names alike,
// which a browser would say. Other modules import from the one what they would import from
// its parts.
func joined(texts map[string][]byte) (map[string][]byte, error) {
	out := maps.Clone(texts)
	others := make(map[string]map[string]bool) // what is imported of modules that are not among them
	var all bytes.Buffer
	for _, name := range first {
		text, ok := texts[name]
		if !ok {
			return nil, fmt.Errorf("there is no %s", name)
		}
		delete(out, name)
		for _, m := range importLine.FindAllSubmatch(text, -1) {
			names, from := string(m[1]), string(m[2])
			if slices.Contains(first, from) {
				continue
			}
			names, ok := strings.CutPrefix(strings.TrimSuffix(names, " }"), "{ ")
			if !ok {
				return nil, fmt.Errorf("%s imports %s from %s: the modules that are sent first import by name", name, m[1], from)
			}
			if others[from] == nil {
				others[from] = make(map[string]bool)
			}
			for n := range strings.SplitSeq(names, ", ") {
				others[from][n] = true
			}
		}
		all.Write(importLine.ReplaceAll(text, nil))
	}
	var head bytes.Buffer
	for _, from := range slices.Sorted(maps.Keys(others)) {
		fmt.Fprintf(&head, "import { %s } from './%s';\n", strings.Join(slices.Sorted(maps.Keys(others[from])), ", "), from)
	}
	out[firstModule] = append(head.Bytes(), all.Bytes()...)
	for name, text := range out {
		if name == firstModule {
			continue
		}
		out[name] = importLine.ReplaceAllFunc(text, func(line []byte) []byte {
			m := importLine.FindSubmatch(line)
			if from := string(m[2]); slices.Contains(first, from) {
				return fmt.Appendf(nil, "import %s from './%s';\n", m[1], firstModule)
			}
			return line
		})
	}
	return out, nil
}
