// Package console tests the console as people use it: in Debian's chromium, against the
// program, with clients of both protocols beside it.
package console

import (
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

func TestMain(m *testing.M) { daemon.Main(m, stopBrowser) }
