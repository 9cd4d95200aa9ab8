package cmd

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// promisedFile lists the names that users' scripts rely on. Within a major version none may
// disappear. Each release adds its new ones with -rewrite.
const promisedFile = "testdata/promised.txt"

var (
	promisedKey    = regexp.MustCompile(`(?m)^#([a-z0-9-]+) = `)
	promisedMetric = regexp.MustCompile("(?m)^\\| (`[a-z0-9_]+`(?:, `[a-z0-9_]+`)*) \\| (?:gauge|counter|histogram)")
)

// names returns the names of flags, routes, members of JSON and metrics, from the documents that
// other tests compare with the programs.
func names(t *testing.T) []string {
	t.Helper()
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	all := make(map[string]bool)
	for _, m := range promisedKey.FindAllStringSubmatch(read("polystalkd/polystalkd.toml"), -1) {
		all["flag "+m[1]] = true
	}
	pages, err := filepath.Glob("manual/guide/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		for _, m := range promisedMetric.FindAllStringSubmatch(read(page), -1) {
			for name := range strings.SplitSeq(m[1], ", ") {
				all["metric "+strings.Trim(name, "`")] = true
			}
		}
	}
	var api struct {
		Paths      map[string]map[string]any
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal([]byte(read("../router/http/openapi.json")), &api); err != nil {
		t.Fatal(err)
	}
	for path, methods := range api.Paths {
		for method := range methods {
			all["route "+strings.ToUpper(method)+" "+path] = true
		}
	}
	for name, schema := range api.Components.Schemas {
		members(all, "member "+name, schema)
	}
	return slices.Sorted(maps.Keys(all))
}

// members adds the members of a schema, and of the schemas in it.
func members(all map[string]bool, at string, schema any) {
	switch s := schema.(type) {
	case []any:
		for _, below := range s {
			members(all, at, below)
		}
	case map[string]any:
		for key, below := range s {
			properties, ok := below.(map[string]any)
			if key != "properties" || !ok {
				members(all, at, below)
				continue
			}
			for name, property := range properties {
				all[at+"."+name] = true
				members(all, at+"."+name, property)
			}
		}
	}
}

// TestPromisedNamesStay: each name of the last release is still there.
func TestPromisedNamesStay(t *testing.T) {
	all := names(t)
	if *rewrite {
		if err := os.WriteFile(promisedFile, []byte(strings.Join(all, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(promisedFile)
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.Lines(string(text)) {
		if name = strings.TrimSpace(name); !slices.Contains(all, name) {
			t.Errorf("%s is gone: a minor version may remove it only before 1.0; if it must go, remove it from %s and name its replacement in the changelog", name, promisedFile)
		}
	}
}
