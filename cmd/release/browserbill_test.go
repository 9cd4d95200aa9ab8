package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// sent returns sources with browser libraries under these licences.
func sent(t *testing.T, licences string) *Source {
	t.Helper()
	src := &Source{Root: t.TempDir(), Version: "1.2.3", Date: time.Unix(1700000000, 0).UTC()}
	path := filepath.Join(src.Root, filepath.FromSlash(vendoredLicences))
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	if err := os.WriteFile(path, []byte(licences), 0o644); err != nil {
		t.Fatal(err)
	}
	return src
}

func TestLibrariesOfBrowsersAreInTheBill(t *testing.T) {
	src := sent(t, "Written by others.\n\n---- one 1.2.3, in a.mjs\n\nA licence.\n\n---- @scope/two 4.5.6-rc.1, in b.mjs\n\nAnother.\n")
	out := filepath.Join(t.TempDir(), "bill")
	must(t, writeBill(nil, src, nil, out))
	text, err := os.ReadFile(out)
	must(t, err)
	for _, want := range []string{"pkg:npm/one@1.2.3", "pkg:npm/%40scope/two@4.5.6-rc.1", `"in b.mjs"`, "SPDXRef-npm--scope-two-4.5.6-rc.1", "polystalk-1.2.3-2023-11-14T22:13:20Z"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if err := writeBill(nil, src, nil, out); err == nil {
		t.Error("a file that was there is written over")
	}
}

func TestLibrariesThatAreNotNamed(t *testing.T) {
	if err := writeBill(nil, sent(t, "one 1.2.3\n"), nil, filepath.Join(t.TempDir(), "bill")); err == nil || !strings.Contains(err.Error(), "---- NAME VERSION, in FILE") {
		t.Errorf("%v", err)
	}
}
