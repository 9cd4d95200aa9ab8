package gearman

import (
	"strings"
	"testing"
)

func TestReplies(t *testing.T) {
	h := Handle{"H:lap", 7}
	plain := &Assignment{Handle: h, Function: "f", Unique: []byte("u"), Size: 4}
	reduce := &Assignment{Handle: h, Function: "f", Unique: []byte("u"), Reducer: []byte("r"), Size: 4}
	dst := []byte("before")
	for _, tt := range []struct {
		got  []byte
		data string // what the caller sends after it
		want string
	}{
		{AppendNoop(dst), "", res(6, "")},
		{AppendNoJob(dst), "", res(10, "")},
		{AppendJobCreated(dst, h), "", res(8, "H:lap:7")},
		{AppendError(dst, ErrorQueueFull), "", res(19, "QUEUE_ERROR\x00Job queue is full")},
		{AppendEchoHead(dst, 4), "data", res(17, "data")},
		{AppendAssignHead(dst, GrabJob, plain), "data", res(11, "H:lap:7\x00f\x00data")},
		{AppendAssignHead(dst, GrabJob, reduce), "data", res(11, "H:lap:7\x00f\x00data")},
		{AppendAssignHead(dst, GrabJobUniq, plain), "data", res(31, "H:lap:7\x00f\x00u\x00data")},
		{AppendAssignHead(dst, GrabJobUniq, reduce), "data", res(31, "H:lap:7\x00f\x00u\x00data")},
		{AppendAssignHead(dst, GrabJobAll, plain), "data", res(31, "H:lap:7\x00f\x00u\x00data")},
		{AppendAssignHead(dst, GrabJobAll, reduce), "data", res(40, "H:lap:7\x00f\x00u\x00r\x00data")},
		{AppendWorkHead(dst, WorkComplete, h, 0), "", res(13, "H:lap:7\x00")},
		{AppendWorkHead(dst, WorkData, h, 2), "\x00\n", res(28, "H:lap:7\x00\x00\n")},
		{AppendWorkFail(dst, h), "", res(14, "H:lap:7")},
		{AppendStatus(dst, []byte("x"), JobStatus{}), "", res(20, "x\x000\x000\x000\x000")},
		{AppendStatus(dst, []byte("x"), JobStatus{true, false, 1, 1<<32 - 1}), "", res(20, "x\x001\x000\x001\x004294967295")},
		{AppendStatusUnique(dst, []byte("u"), JobStatus{true, true, 5, 6}, 3), "", res(42, "u\x001\x001\x005\x006\x003")},
		{AppendReply(dst, OptionRes, []byte("exceptions")), "", res(27, "exceptions")},
		{AppendRequest(dst, GrabJob), "", req(9, "")},
		{AppendRequest(dst, SubmitJob, []byte("f"), nil, nil), "", req(7, "f\x00\x00")},
		{AppendRequestHead(dst, SubmitJob, 4, []byte("f"), []byte("u")), "data", req(7, "f\x00u\x00data")},
		{AppendRequestHead(dst, EchoReq, 4), "data", req(16, "data")},

		{AppendOK(dst, "2.0.0"), "", "OK 2.0.0\n"},
		{appendWorkersLine(dst, 12, "127.0.0.1", []byte("-"), []string(nil)), "", "12 127.0.0.1 - :\n"},
		{appendWorkersLine(dst, 12, "::1", []byte("w"), []string{"f", "g"}), "", "12 ::1 w : f g\n"},
		{AppendStatusLine(dst, "f", &FunctionStatus{[NumPriorities]uint64{1, 2, 3}, 4, 5}), "", "f\t10\t4\t5\n"},
		{AppendPriorityStatusLine(dst, "f", &FunctionStatus{[NumPriorities]uint64{1, 2, 3}, 4, 5}), "", "f\t1\t2\t3\t5\n"},
		{AppendJobLine(dst, h, 2, true), "", "H:lap:7\t2\t0\t1\n"},
		{AppendJobLine(dst, h, 0, false), "", "H:lap:7\t0\t0\t0\n"},
		{AppendUniqueLine(dst, ""), "", "\n"},
		{AppendClientID(dst, nil), "", "-"},
		{AppendClientID(dst, []byte("a b\x00\n\x7fü\xff\u0085\u2028x")), "", "a_b___ü\xff__x"},
		{AppendClientID(dst, []byte(strings.Repeat("i", 300))), "", strings.Repeat("i", 127)},
	} {
		if got := string(tt.got) + tt.data; got != "before"+tt.want {
			t.Errorf("got %q, want %q behind before", got, tt.want)
		}
	}
}

func TestNoJobError(t *testing.T) {
	for typ, want := range map[Type]string{
		WorkStatus: ErrorNoJobResult, WorkComplete: ErrorNoJobResult, WorkFail: ErrorNoJobResult,
		WorkData: ErrorNoJobData, WorkWarning: ErrorNoJobData, WorkException: ErrorNoJobException,
	} {
		if got := NoJobError(typ); got != want {
			t.Errorf("%v: %q", typ, got)
		}
	}
}
