package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spdx/tools-golang/json"
)

// TestBillIsComplete: the bill has the modules that go list reports, linked into the programs.
func TestBillIsComplete(t *testing.T) {
	m := first(t)
	f, err := os.Open(m.the(t, "*.spdx.json"))
	must(t, err)
	defer f.Close()
	doc, err := json.Read(f)
	must(t, err)
	var modules, programs, others []string
	for _, p := range doc.Packages {
		switch {
		case len(p.PackageExternalReferences) == 0:
			programs = append(programs, p.PackageName+" "+p.PackageVersion)
			if p.PackageName != "polystalk" && len(p.PackageChecksums) != 1 {
				t.Errorf("%s has no checksum", p.PackageName)
			}
		case strings.HasPrefix(p.PackageExternalReferences[0].Locator, "pkg:golang/") && p.PackageName != "stdlib":
			modules = append(modules, p.PackageName+" "+p.PackageVersion)
		default:
			others = append(others, p.PackageName)
		}
	}
	slices.Sort(modules)
	if want := linked(t, m); !slices.Equal(modules, want) {
		t.Errorf("linked are\n%s\nwant\n%s", strings.Join(modules, "\n"), strings.Join(want, "\n"))
	}
	v := " " + m.src.Version
	if !slices.Equal(programs, []string{"polystalk" + v, "polystalk" + v, "polystalkd" + v}) {
		t.Errorf("programs are %q", programs)
	}
	want := 1 // Go's own library
	if text, err := os.ReadFile(m.root + "/" + vendoredLicences); err == nil {
		want += strings.Count(string(text), "\n---- ")
	}
	if len(others) != want || others[0] != "stdlib" {
		t.Errorf("others are %q, want %d", others, want)
	}
}
