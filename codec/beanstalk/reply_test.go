package beanstalk

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestReplies(t *testing.T) {
	const maxID = math.MaxUint64
	tests := []struct {
		append func(dst []byte) []byte
		want   string
	}{
		{func(b []byte) []byte { return AppendInserted(b, 1) }, "INSERTED 1\r\n"},
		{func(b []byte) []byte { return AppendInserted(b, maxID) }, "INSERTED 18446744073709551615\r\n"},
		{func(b []byte) []byte { return AppendReserved(b, 3, []byte("abc")) }, "RESERVED 3 3\r\nabc\r\n"},
		{func(b []byte) []byte { return AppendReserved(b, 3, nil) }, "RESERVED 3 0\r\n\r\n"},
		{func(b []byte) []byte { return AppendReserved(b, 3, []byte("\r\n\x00")) }, "RESERVED 3 3\r\n\r\n\x00\r\n"},
		{func(b []byte) []byte { return AppendFound(b, maxID, []byte("abc")) }, "FOUND 18446744073709551615 3\r\nabc\r\n"},
		{func(b []byte) []byte { return AppendReservedHeader(b, 4, MaxJobSizeLimit) }, "RESERVED 4 1073741824\r\n"},
		{func(b []byte) []byte { return AppendFoundHeader(b, 5, 0) }, "FOUND 5 0\r\n"},
		{func(b []byte) []byte { return AppendUsing(b, "default") }, "USING default\r\n"},
		{func(b []byte) []byte { return AppendUsing(b, name200) }, "USING " + name200 + "\r\n"},
		{func(b []byte) []byte { return AppendWatching(b, 12) }, "WATCHING 12\r\n"},
		{func(b []byte) []byte { return AppendKicked(b, 0) }, "KICKED 0\r\n"},
		{func(b []byte) []byte { return AppendKicked(b, math.MaxUint32) }, "KICKED 4294967295\r\n"},
	}
	for _, tt := range tests {
		checkAppend(t, tt.append, tt.want)
	}
}

// checkAppend checks that a reply is want, and that it goes behind what dst
// already has, whether or not dst has room.
func checkAppend(t *testing.T, appendReply func(dst []byte) []byte, want string) {
	t.Helper()
	for _, room := range []int{0, 1, len(want) - 1, len(want), len(want) + 64} {
		dst := append(make([]byte, 0, len("before")+room), "before"...)
		if got := string(appendReply(dst)); got != "before"+want {
			t.Errorf("with room for %d bytes: got %q, want %q", room, got, "before"+want)
		}
	}
}

func TestMessages(t *testing.T) {
	// Written out once more, for a mistake in a constant shows nowhere else.
	want := strings.Fields(`DELETED RELEASED BURIED TOUCHED KICKED NOT_FOUND TIMED_OUT DEADLINE_SOON NOT_IGNORED PAUSED BAD_FORMAT
		UNKNOWN_COMMAND EXPECTED_CRLF JOB_TOO_BIG DRAINING OUT_OF_MEMORY INTERNAL_ERROR`)
	got := []string{MsgDeleted, MsgReleased, MsgBuried, MsgTouched, MsgKicked, MsgNotFound, MsgTimedOut, MsgDeadlineSoon, MsgNotIgnored,
		MsgPaused, MsgBadFormat, MsgUnknownCommand, MsgExpectedCRLF, MsgJobTooBig, MsgDraining, MsgOutOfMemory, MsgInternalError}
	for i := range want {
		if got[i] != want[i]+"\r\n" {
			t.Errorf("message %q, want %q", got[i], want[i]+"\r\n")
		}
	}
}

func appendTubeList(dst []byte, names []string) []byte {
	dst = AppendTubeListHead(dst, len(names), len(strings.Join(names, "")))
	for _, name := range names {
		dst = AppendTubeListName(dst, name)
	}
	return append(dst, MsgTubeListEnd...)
}

func TestTubeListLength(t *testing.T) {
	for _, n := range []int{0, 1, 2, 9, 10, 100, 10_000} {
		names := make([]string, n)
		var body strings.Builder
		body.WriteString("---\n")
		for i := range names {
			names[i] = fmt.Sprintf("tube-%d", i)
			body.WriteString("- " + names[i] + "\n")
		}
		want := fmt.Sprintf("OK %d\r\n%s\r\n", len(body.String()), body.String())
		got := string(appendTubeList([]byte("before"), names))
		if got != "before"+want {
			t.Errorf("list of %d tubes: %d bytes beginning %q, want %d", n, len(got), got[:min(len(got), 60)], len(want)+6)
		}
	}
	checkAppend(t, func(dst []byte) []byte {
		return appendTubeList(dst, []string{"default", "a"})
	}, "OK 18\r\n---\n- default\n- a\n\r\n")
}
