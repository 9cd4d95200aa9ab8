package cluster

import (
	"errors"
	"strings"
	"testing"
)

// TestALogThatLacksWhatWasAcknowledgedIsNamed: the error does not show raft's text.
func TestALogThatLacksWhatWasAcknowledgedIsNamed(t *testing.T) {
	raises := func(format string, v ...any) (err error) {
		defer new(engine).recovered(&err)
		raftLogger(nil).Panicf(format, v...)
		return nil
	}
	for _, err := range []error{
		raises("tocommit(%d) is out of range [lastIndex(%d)]. Was the raft log corrupted, truncated, or lost?", 33, 32),
		raises("entry %d conflict with committed entry [committed(%d)]", 5, 7),
	} {
		if !errors.Is(err, ErrLogLost) || strings.Contains(err.Error(), "ommit") {
			t.Errorf("%v", err)
		}
	}
	if err := raises("a mistake"); errors.Is(err, ErrLogLost) || !strings.Contains(err.Error(), "a mistake") {
		t.Errorf("another panic is %v", err)
	}
}
