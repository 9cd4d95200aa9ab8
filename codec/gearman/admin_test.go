package gearman

import (
	"strings"
	"testing"
)

const (
	unknown    = "ERR UNKNOWN_COMMAND Unknown+server+command"
	incomplete = "ERR INVALID_ARGUMENTS An+incomplete+set+of+arguments+was+sent+to+this+command+"
)

// What gearmand 1.1.20 answers, except for shutdown, which it does not know.
func TestParseLineRefuses(t *testing.T) {
	for line, reply := range map[string]string{
		"":                             unknown,
		" ":                            unknown,
		" status":                      unknown,
		"\tstatus":                     unknown + "\tstatus",
		"status\tx":                    unknown + "status\tx",
		"sta\x00tus x":                 unknown + "sta",
		"foo\r\r":                      unknown + "foo\r",
		"foo\rbar":                     unknown + "foo\rbar",
		"\xff":                         unknown + "\xff",
		"echo hi":                      unknown + "echo",
		"gladiator":                    unknown + "gladiator",
		"sTaTu\x13":                    unknown + "sTaTu\x13",
		"show":                         unknown + "show",
		"SHOW":                         unknown + "SHOW",
		"cancel":                       unknown + "cancel",
		"cancel job":                   unknown + "cancel",
		"maxqueue":                     incomplete + "maxqueue",
		"create":                       incomplete + "create",
		"CREATE function":              incomplete + "CREATE",
		"create function a b":          incomplete + "create",
		"create foo bar":               incomplete + "create",
		"create function a ":           incomplete + "create",
		"create function ":             incomplete + "create",
		"Create Function \x00a":        incomplete + "Create",
		"drop":                         incomplete + "drop",
		"drop foo bar":                 incomplete + "drop",
		"shutdown now":                 incomplete + "shutdown",
		"shutdown graceful x":          incomplete + "shutdown",
		"show ":                        "ERR UNKNOWN_SHOW_ARGUMENTS",
		"show foo":                     "ERR UNKNOWN_SHOW_ARGUMENTS",
		"show jobs x":                  "ERR UNKNOWN_SHOW_ARGUMENTS",
		"show jobs ":                   "ERR UNKNOWN_SHOW_ARGUMENTS",
		"show unique":                  "ERR UNKNOWN_SHOW_ARGUMENTS",
		"show unique jobs x":           "ERR UNKNOWN_SHOW_ARGUMENTS",
		"cancel foo bar":               "ERR UNKNOWN_ERROR",
		"cancel job H:lap:1 x":         "ERR UNKNOWN_ERROR",
		strings.Repeat("a", MaxLine-1): unknown + strings.Repeat("a", MaxLine-1),
	} {
		var m Message
		n, fault := Parse(&m, []byte(line+"\nrest"), 0)
		if n != len(line)+1 || fault == nil || fault.Close || m.Verb != Unknown {
			t.Errorf("Parse(%.40q) = %d, %v, %v", line, n, fault, m.Verb)
			continue
		}
		if got := string(fault.AppendReply(nil, &m)); got != reply+"\r\n" {
			t.Errorf("the reply to %.40q is %q, want %q", line, got, reply)
		}
	}
}

func TestParseLineCloses(t *testing.T) {
	for line, want := range map[string]*Fault{
		"status a b c d e\n":                        ErrTooManyWords,
		"maxqueue f 1 2 3 4\n":                      ErrTooManyWords,
		"foo a b c d \n":                            ErrTooManyWords,
		strings.Repeat("a", MaxLine):                ErrLineTooLong,
		strings.Repeat("a", MaxLine) + "\nstatus\n": ErrLineTooLong,
	} {
		var m Message
		n, fault := Parse(&m, []byte(line), 0)
		if n == 0 || fault != want || !fault.Close || len(fault.AppendReply(nil, &m)) != 0 {
			t.Errorf("Parse(%.40q) = %d, %v", line, n, fault)
		}
	}
	var m Message
	if n, fault := Parse(&m, []byte(strings.Repeat("a", MaxLine-1)), 0); n != 0 || fault != nil {
		t.Errorf("Parse of a beginning = %d, %v", n, fault)
	}
}

func TestParseLineAccepts(t *testing.T) {
	all := func(n uint32) [NumPriorities]uint32 { return [NumPriorities]uint32{n, n, n} }
	none := all(0)
	for _, tt := range []struct {
		line   string
		verb   Verb
		args   string
		limits [NumPriorities]uint32
	}{
		{"workers", Workers, "", none},
		{"Status now please", Status, "", none},
		{"status ", Status, "", none},
		{"status\x00foo", Status, "", none},
		{"status a b c d", Status, "", none},
		{"PRIORITYSTATUS", PriorityStatus, "", none},
		{"version x", Version, "", none},
		{"verbose", Verbose, "", none},
		{"getPID", GetPID, "", none},
		{"show jobs", ShowJobs, "", none},
		{"Show  Unique   Jobs", ShowUniqueJobs, "", none},
		{"maxqueue f", MaxQueue, "f", none},
		{"maxqueue ", MaxQueue, "", none},
		{"maxqueue  f  7", MaxQueue, "f", all(7)},
		{"maxqueue f 7x", MaxQueue, "f", all(7)},
		{"maxqueue f -1", MaxQueue, "f", none},
		{"maxqueue f x", MaxQueue, "f", none},
		{"maxqueue f 99999999999999999999", MaxQueue, "f", none},
		{"maxqueue F 1 2", MaxQueue, "F", [NumPriorities]uint32{1, 2, 0}},
		{"maxqueue f 1 0 -3", MaxQueue, "f", [NumPriorities]uint32{1, 0, 0}},
		{"maxqueue f 1 2 3", MaxQueue, "f", [NumPriorities]uint32{1, 2, 3}},
		{"create function Foo", CreateFunction, "Foo", none},
		{"drop function ", DropFunction, "", none},
		{"create function q\x00r", CreateFunction, "q", none},
		{"drop FUNCTION foo", DropFunction, "foo", none},
		{"cancel JOB H:lap:1", CancelJob, "H:lap:1", none},
		{"cancel job ", CancelJob, "", none},
		{"shutdown", Shutdown, "", none},
		{"SHUTDOWN Graceful", ShutdownGraceful, "", none},
	} {
		for _, end := range []string{"\n", "\r\n"} {
			var m Message
			input := tt.line + end
			n, fault := Parse(&m, []byte(input+"\x00REQ"), 0)
			if n != len(input) || fault != nil || m.Type != Text || m.Verb != tt.verb || args(&m) != tt.args || m.Limits != tt.limits {
				t.Errorf("Parse(%q) = %d, %v: %v %q %v", input, n, fault, m.Verb, args(&m), m.Limits)
			}
			if n, fault := Parse(&m, []byte(input[:len(input)-1]), 0); n != 0 || fault != nil {
				t.Errorf("Parse(%q) = %d, %v", input[:len(input)-1], n, fault)
			}
		}
	}
}

func TestVerbsAreTheirWords(t *testing.T) {
	for v := Unknown + 1; v < NumVerbs; v++ {
		line := v.String()
		switch v {
		case MaxQueue, CreateFunction, DropFunction, CancelJob:
			line += " x"
		}
		var m Message
		if _, fault := Parse(&m, []byte(line+"\n"), 0); fault != nil || m.Verb != v {
			t.Errorf("%q is %v, %v", line, m.Verb, fault)
		}
	}
	if Verb(200).String() != "unknown" {
		t.Error(Verb(200))
	}
}

func TestFoldFunctionIsOfASCIIOnly(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"", "", true}, {"foo", "FOO", true}, {"a/1[Z", "A/1[z", true}, {"foo", "fo", false},
		{"@", "`", false}, {"[", "{", false}, {"\xff", "\xef\xbf\xbd", false}, {"\u00fc", "\u00dc", false}, {"k", "\u212a", false},
	} {
		if got := FoldFunction(tt.a) == FoldFunction(tt.b); got != tt.want {
			t.Errorf("%q, %q: %t", tt.a, tt.b, got)
		}
	}
}
