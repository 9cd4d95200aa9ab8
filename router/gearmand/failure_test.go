package gearmand

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"polystalk/codec/gearman"
)

// TestEveryFailureIsCounted: the list has every error reply of package gearman.
func TestEveryFailureIsCounted(t *testing.T) {
	text, err := os.ReadFile("../../codec/gearman/fault.go")
	if err != nil {
		t.Fatal(err)
	}
	bodies := regexp.MustCompile(`Error[A-Z]\w* += "([A-Z_]+)\\x00`).FindAllSubmatch(text, -1)
	faults := regexp.MustCompile(`(Err[A-Z]\w*) = &Fault`).FindAllSubmatch(text, -1)
	if len(bodies) < 15 || len(faults) < 15 {
		t.Fatalf("%d errors and %d faults were found", len(bodies), len(faults))
	}
	for _, m := range bodies {
		if code := gearman.ErrorCode(string(m[1]) + "\x00text"); !slices.Contains(failures, code) {
			t.Errorf("%s is not counted", code)
		}
	}
	all := []*gearman.Fault{
		gearman.ErrMagic, gearman.ErrType, gearman.ErrTooLarge, gearman.ErrDirection, gearman.ErrUnexpected, gearman.ErrArguments,
		gearman.ErrArgumentTooLarge, gearman.ErrUnique, gearman.ErrHandle, gearman.ErrFailHandle, gearman.ErrEpoch, gearman.ErrSchedule,
		gearman.ErrLineTooLong, gearman.ErrTooManyWords, gearman.ErrUnknownCommand, gearman.ErrIncomplete, gearman.ErrShow, gearman.ErrCancel,
	}
	if len(all) != len(faults) {
		t.Errorf("package gearman has %d faults, and %d are tried here", len(faults), len(all))
	}
	for _, f := range all {
		if !slices.Contains(failures, f.Code()) {
			t.Errorf("%s is not counted", f.Code())
		}
	}
}
