package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"polystalk/cmd/polystalkd/logging"
)

// TestEndComesWhateverIsWaitedFor, and the log names that; unless it is over before.
func TestEndComesWhateverIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		w := &watch{log: &logging.Logger{Logger: slog.New(slog.NewTextHandler(&text, nil))}}
		ended := 0
		at, _ := w.endBy(func() { ended++ })
		at("clients")
		at("the journal")
		_, done := w.endBy(func() { ended++ })
		if !done() {
			t.Error("what is over in time is not")
		}
		time.Sleep(endWithin)
		synctest.Wait()
		if ended != 1 || !strings.Contains(text.String(), `"waits for"="the journal"`) {
			t.Errorf("it has ended %d times: %s", ended, text.String())
		}
	})
}
