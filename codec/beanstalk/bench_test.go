package beanstalk

import (
	"testing"
)

// hotLines are the most frequent commands of a busy server, at the length that they
// have after some hours.
var hotLines = []struct{ name, line string }{
	{"put", "put 1024 0 60 128\r\n"},
	{"reserve", "reserve\r\n"},
	{"reserve-with-timeout", "reserve-with-timeout 5\r\n"},
	{"delete", "delete 123456789\r\n"},
	{"release", "release 123456789 1024 30\r\n"},
	{"touch", "touch 123456789\r\n"},
	{"bury", "bury 123456789 1024\r\n"},
	{"use", "use mail.outgoing\r\n"},
	{"watch", "watch mail.outgoing\r\n"},
}

func TestHotCommandsDoNotAllocate(t *testing.T) {
	var cmd Command
	for _, hot := range hotLines {
		line := []byte(hot.line)
		if n, err := Parse(&cmd, line); n != len(line) || err != nil {
			t.Fatalf("Parse(%q) = %d, %v", line, n, err)
		}
		if allocs := testing.AllocsPerRun(100, func() { _, _ = Parse(&cmd, line) }); allocs != 0 {
			t.Errorf("%s: %v allocations, want 0", hot.name, allocs)
		}
	}
	for _, line := range []string{"nonsense\r\n", "delete x\r\n", "delete 1"} {
		b := []byte(line)
		if allocs := testing.AllocsPerRun(100, func() { _, _ = Parse(&cmd, b) }); allocs != 0 {
			t.Errorf("%q: %v allocations, want 0", line, allocs)
		}
	}
}

// hotReplies appends replies to a buffer with room for them.
func hotReplies() map[string]func() {
	dst, body := make([]byte, 0, 4096), make([]byte, 128)
	job, tube, server := new(JobStats), new(TubeStats), new(ServerStats)
	return map[string]func(){
		"INSERTED":   func() { _ = AppendInserted(dst, 123456789) },
		"RESERVED":   func() { _ = AppendReserved(dst, 123456789, body) },
		"FOUND":      func() { _ = AppendFound(dst, 123456789, body) },
		"USING":      func() { _ = AppendUsing(dst, "mail.outgoing") },
		"WATCHING":   func() { _ = AppendWatching(dst, 123) },
		"KICKED":     func() { _ = AppendKicked(dst, 123) },
		"stats-job":  func() { _ = AppendJobStats(dst, job) },
		"stats-tube": func() { _ = AppendTubeStats(dst, tube) },
		"stats":      func() { _ = AppendServerStats(dst, server) },
	}
}

func TestRepliesDoNotAllocate(t *testing.T) {
	for name, appendReply := range hotReplies() {
		if allocs := testing.AllocsPerRun(100, appendReply); allocs != 0 {
			t.Errorf("%s: %v allocations, want 0", name, allocs)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	for _, hot := range hotLines {
		// With more input behind the line, as pipelining clients send it.
		for _, mode := range []struct{ name, rest string }{{"alone", ""}, {"pipelined", longest + longest}} {
			b.Run(hot.name+"/"+mode.name, func(b *testing.B) {
				b.ReportAllocs()
				input := []byte(hot.line + mode.rest)
				var cmd Command
				for b.Loop() {
					if n, err := Parse(&cmd, input); n != len(hot.line) || err != nil {
						b.Fatal(n, err)
					}
				}
			})
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	for name, appendReply := range hotReplies() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				appendReply()
			}
		})
	}
}
