package gearman

import (
	"strings"
	"testing"
)

// What a busy server sees millions of: submit, grab and complete, and what
// libgearman sends around them.
var hot = []struct {
	name  string
	input []byte
}{
	{"SUBMIT_JOB", []byte(req(SubmitJob, "mail.outgoing\x00123e4567-e89b-12d3-a456-426614174000\x00"+strings.Repeat("x", 100)))},
	{"SUBMIT_JOB_BG", []byte(req(SubmitJobBG, "mail.outgoing\x00\x00"+strings.Repeat("x", 100)))},
	{"GRAB_JOB_ALL", []byte(req(GrabJobAll, ""))},
	{"PRE_SLEEP", []byte(req(PreSleep, ""))},
	{"WORK_COMPLETE", []byte(req(WorkComplete, "H:host:123456789\x00"+strings.Repeat("x", 100)))},
	{"WORK_STATUS", []byte(req(WorkStatus, "H:host:123456789\x0050\x00100"))},
	{"GET_STATUS", []byte(req(GetStatus, "H:host:123456789"))},
	{"status", []byte("status\r\n")},
}

func TestHotMessagesDoNotAllocate(t *testing.T) {
	var m Message
	for _, h := range hot {
		if n, fault := Parse(&m, h.input, DefaultMaxBody); n+m.Size != len(h.input) || fault != nil {
			t.Fatalf("Parse(%q) = %d, %v", h.input, n, fault)
		}
		if allocs := testing.AllocsPerRun(100, func() { Parse(&m, h.input, DefaultMaxBody) }); allocs != 0 {
			t.Errorf("%s: %v allocations, want 0", h.name, allocs)
		}
	}
	for _, bad := range []string{"nonsense\n", "maxqueue f 1 2 3\n", req(SubmitJob, "f"), res(Noop, ""), "\x00REQ", "stat"} {
		b := []byte(bad)
		if allocs := testing.AllocsPerRun(100, func() { Parse(&m, b, DefaultMaxBody) }); allocs != 0 {
			t.Errorf("%q: %v allocations, want 0", bad, allocs)
		}
	}
}

// replies are the answers to the hot messages, and the requests of a client
// that should cost nothing either.
func replies() map[string]func() {
	dst := make([]byte, 0, 4096)
	h := Handle{"H:host", 123456789}
	handle, function, unique := h.appendTo(nil), []byte("mail.outgoing"), []byte("123e4567")
	data := make([]byte, 100)
	job := &Assignment{Handle: h, Function: "mail.outgoing", Unique: unique, Size: len(data)}
	status := new(FunctionStatus)
	m := &Message{Word: []byte("nonsense")}
	return map[string]func(){
		"JOB_CREATED":       func() { _ = AppendJobCreated(dst, h) },
		"JOB_ASSIGN_UNIQ":   func() { _ = append(AppendAssignHead(dst, GrabJobUniq, job), data...) },
		"NO_JOB":            func() { _ = AppendNoJob(dst) },
		"NOOP":              func() { _ = AppendNoop(dst) },
		"WORK_COMPLETE":     func() { _ = append(AppendWorkHead(dst, WorkComplete, h, len(data)), data...) },
		"WORK_FAIL":         func() { _ = AppendWorkFail(dst, h) },
		"STATUS_RES":        func() { _ = AppendStatus(dst, handle, JobStatus{true, true, 50, 100}) },
		"STATUS_RES_UNIQUE": func() { _ = AppendStatusUnique(dst, unique, JobStatus{}, 1) },
		"ERROR":             func() { _ = AppendError(dst, ErrorQueueFull) },
		"fault":             func() { _ = ErrUnknownCommand.AppendReply(dst, m) },
		"OPTION_RES":        func() { _ = AppendReply(dst, OptionRes, unique) },
		"status":            func() { _ = AppendStatusLine(dst, "mail.outgoing", status) },
		"show jobs":         func() { _ = AppendJobLine(dst, h, 1, true) },
		"submit":            func() { _ = AppendRequest(dst, SubmitJob, function, unique, data) },
		"submit head":       func() { _ = AppendRequestHead(dst, SubmitJob, len(data), function, unique) },
		"grab":              func() { _ = AppendRequest(dst, GrabJobAll) },
		"complete":          func() { _ = AppendRequest(dst, WorkComplete, handle, data) },
		"quoted":            func() { _ = AppendQuoted(dst, function) },
		"handle":            func() { ParseHandle("H:host", handle) },
	}
}

func TestRepliesDoNotAllocate(t *testing.T) {
	for name, appendReply := range replies() {
		if allocs := testing.AllocsPerRun(100, appendReply); allocs != 0 {
			t.Errorf("%s: %v allocations, want 0", name, allocs)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	for _, h := range hot {
		b.Run(h.name, func(b *testing.B) {
			b.ReportAllocs()
			var m Message
			for b.Loop() {
				if n, fault := Parse(&m, h.input, DefaultMaxBody); n == 0 || fault != nil {
					b.Fatal(n, fault)
				}
			}
		})
	}
}

func BenchmarkAppend(b *testing.B) {
	all := replies()
	for _, name := range []string{"JOB_CREATED", "JOB_ASSIGN_UNIQ", "WORK_COMPLETE", "NO_JOB", "STATUS_RES", "submit"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				all[name]()
			}
		})
	}
}
