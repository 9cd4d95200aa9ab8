package main

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestEndComesWhateverIsWaitedFor: the end comes in time, and the log names the part that was late.
func TestEndComesWhateverIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		w := &watch{log: &logger{Logger: slog.New(slog.NewTextHandler(&text, nil))}}
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

// TestEndComesThoughTheLogCannotBeWritten, for example on a hung disk.
func TestEndComesThoughTheLogCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, stuck := io.Pipe()
		w := &watch{log: &logger{Logger: slog.New(slog.NewTextHandler(stuck, nil))}}
		ended := false
		w.endBy(func() { ended = true })
		time.Sleep(endWithin + writeWithin)
		synctest.Wait()
		if !ended {
			t.Error("it waits for the log")
		}
		r.Close()
	})
}

// TestSignalOfAnEarlierLifeIsNotLost: the next run would not see the signal.
func TestSignalOfAnEarlierLifeIsNotLost(t *testing.T) {
	for _, c := range []struct {
		come []os.Signal
		want os.Signal
	}{{nil, nil}, {[]os.Signal{syscall.SIGHUP}, nil}, {[]os.Signal{syscall.SIGHUP, syscall.SIGTERM}, syscall.SIGTERM}} {
		for range 100 { // a select takes either of two
			stop := make(chan os.Signal, 2)
			for _, sig := range c.come {
				stop <- sig
			}
			if sig := endSignal(stop, 0); sig != c.want {
				t.Fatalf("%v: %v, want %v", c.come, sig, c.want)
			}
		}
	}
}
