// Package console tests the console as users see it: in Debian's chromium, with the real program
// and clients of both protocols.
package console

import (
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

func TestMain(m *testing.M) { daemon.Main(m, stopBrowser) }

// long skips a test that takes longer than a second under -short.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("long")
	}
}

// noErr ends the test if there is an error.
func noErr(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// expect fails the test unless ok, but lets it continue.
func expect(t testing.TB, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Errorf(format, args...)
	}
}

// require ends the test unless ok.
func require(t testing.TB, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Fatalf(format, args...)
	}
}
