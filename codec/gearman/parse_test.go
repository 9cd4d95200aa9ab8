package gearman

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// packet builds a packet of a body that need not make sense.
func packet(magic string, t Type, body string) []byte {
	b := append([]byte(magic), 0, 0, 0, 0, 0, 0, 0, 0)
	binary.BigEndian.PutUint32(b[4:], uint32(t))
	binary.BigEndian.PutUint32(b[8:], uint32(len(body)))
	return append(b, body...)
}

func req(t Type, body string) string { return string(packet(magicRequest, t, body)) }
func res(t Type, body string) string { return string(packet(magicResponse, t, body)) }

// args are the arguments of a message, as one string.
func args(m *Message) string { return string(bytes.Join(m.Args[:m.N], []byte("|"))) }

func TestParseRefuses(t *testing.T) {
	long := strings.Repeat("u", 65)
	huge := strings.Repeat("h", MaxArgs+1)
	tests := []struct {
		input string
		n     int
		fault *Fault
		size  int
		reply string // the ERROR's body
	}{
		{"\x00REX" + req(EchoReq, "")[4:], 12, ErrMagic, 0, ""},
		{"\x00\x00\x00\x00" + req(EchoReq, "")[4:], 12, ErrMagic, 0, ""},
		{req(0, ""), 12, ErrType, 0, ""},
		{req(43, ""), 12, ErrType, 0, ""},
		{req(0x80000000, ""), 12, ErrType, 0, ""},
		{req(0xffffffff, ""), 12, ErrType, 0, ""},
		{res(43, ""), 12, ErrType, 0, ""},
		{res(EchoReq, "hi"), 12, ErrDirection, 2, ErrorInvalidMagic},
		{res(SubmitJob, "short"), 12, ErrDirection, 5, ErrorInvalidMagic},
		{res(Noop, ""), 12, ErrDirection, 0, ErrorInvalidMagic},
		{req(Unused, ""), 12, ErrUnexpected, 0, ErrorInvalidCommand},
		{req(AllYours, "x"), 12, ErrUnexpected, 1, ErrorInvalidCommand},
		{req(StatusRes, "short"), 12, ErrUnexpected, 5, ErrorInvalidCommand},
		{req(EchoReq, "")[:8] + "\x00\x10\x00\x01", 12, ErrTooLarge, 0, ErrorDataTooLarge},
		{res(Noop, "")[:8] + "\xff\xff\xff\xff", 12, ErrTooLarge, 0, ErrorDataTooLarge},

		{req(SubmitJob, ""), 12, ErrArguments, 0, ErrorInvalidPacket},
		{req(SubmitJob, "f") + "\x00\x00", 13, ErrArguments, 0, ErrorInvalidPacket},
		{req(SubmitJob, "f\x00u") + "\x00REQ", 15, ErrArguments, 0, ErrorInvalidPacket},
		{req(WorkComplete, "H:lap:1") + "\x00", 19, ErrArguments, 0, ErrorInvalidPacket},
		{req(WorkStatus, "H:lap:1\x001"), 21, ErrArguments, 0, ErrorInvalidPacket},
		{req(CanDoTimeout, "f") + "\x00", 13, ErrArguments, 0, ErrorInvalidPacket},
		{req(SubmitReduceJob, "f\x00u\x00red\x00data"), 24, ErrArguments, 0, ErrorInvalidPacket},
		{req(SubmitJobEpoch, "f\x00u\x001"), 17, ErrArguments, 0, ErrorInvalidPacket},
		{req(SubmitJobSched, "f\x00u\x00\x00\x00\x00\x00"), 20, ErrArguments, 0, ErrorInvalidPacket},

		{req(CanDo, huge), 12, ErrArgumentTooLarge, MaxArgs + 1, ErrorArgumentTooLarge},
		{req(CanDo, huge)[:12], 12, ErrArgumentTooLarge, MaxArgs + 1, ErrorArgumentTooLarge},
		{req(SubmitJob, huge+"\x00\x00"), 12, ErrArgumentTooLarge, MaxArgs + 3, ErrorArgumentTooLarge},

		{req(SubmitJob, "f\x00"+long+"\x00data"), 80, ErrUnique, 4, ErrorUniqueTooLarge},
		{req(SubmitJobLowBG, "f\x00"+long+"\x00"), 80, ErrUnique, 0, ErrorUniqueTooLarge},
		{req(SubmitReduceJob, "f\x00"+long+"\x00r\x00\x00d"), 83, ErrUnique, 1, ErrorUniqueTooLarge},
		{req(SubmitReduceJobBG, "f\x00u\x00"+long+"\x00\x00d"), 83, ErrUnique, 1, ErrorUniqueTooLarge},
		{req(SubmitJobEpoch, "f\x00"+long+"\x001\x00d"), 82, ErrUnique, 1, ErrorUniqueTooLarge},
		{req(SubmitJobSched, "f\x00"+long+"\x00\x00\x00\x00\x00\x00d"), 85, ErrUnique, 1, ErrorUniqueTooLarge},
		{req(GetStatusUnique, long), 77, ErrUnique, 0, ErrorUniqueTooLarge},
		{req(GetStatus, long[1:]), 76, ErrHandle, 0, ErrorHandleTooLarge},
		{req(WorkFail, long[1:]), 76, ErrFailHandle, 0, ErrorFailHandleTooLarge},
		{req(SubmitJobEpoch, "f\x00u\x009223372036854775808\x00d"), 36, ErrEpoch, 1, ErrorEpoch},
		{req(SubmitJobEpoch, "f\x00u\x00-99999999999999999999\x00d"), 38, ErrEpoch, 1, ErrorEpoch},
		{req(SubmitJobSched, "f\x00u\x0060\x00\x00\x00\x00\x00d"), 23, ErrSchedule, 1, ErrorSchedule},
	}
	for _, tt := range tests {
		var m Message
		n, fault := Parse(&m, []byte(tt.input), 1<<20)
		if n != tt.n || fault != tt.fault || m.Size != tt.size {
			t.Errorf("Parse(%.40q) = %d, %v, size %d; want %d, %v, size %d", tt.input, n, fault, m.Size, tt.n, tt.fault, tt.size)
			continue
		}
		want := ""
		if tt.reply != "" {
			want = res(Error, tt.reply)
		}
		if got := string(fault.AppendReply(nil, &m)); got != want {
			t.Errorf("the reply to %.40q is %q, want %q", tt.input, got, want)
		}
	}
}

func TestParseAccepts(t *testing.T) {
	u64 := strings.Repeat("u", 64)
	h63 := strings.Repeat("h", 63)
	long := strings.Repeat("F", 9000)
	tests := []struct {
		t    Type
		body string
		args string
		size int // of the data
	}{
		{CanDo, "f", "f", 0},
		{CanDo, "", "", 0},
		{CanDo, "f\x00", "f\x00", 0},
		{CanDo, long, long, 0},
		{CantDo, "f\x00g", "f\x00g", 0},
		{SetClientID, "a\x00", "a\x00", 0},
		{ResetAbilities, "", "", 0},
		{PreSleep, "", "", 0},
		{GrabJob, "junk!", "", 5},
		{GrabJobUniq, "", "", 0},
		{GrabJobAll, "\x00\x00", "", 2},
		{SubmitJob, "f\x00u\x00data", "f|u", 4},
		{SubmitJob, "\x00\x00", "|", 0},
		{SubmitJobBG, "f\x00\x00a\x00b", "f|", 3},
		{SubmitJobHigh, "f\x00" + u64 + "\x00x", "f|" + u64, 1},
		{SubmitJobHighBG, long + "\x00u\x00x", long + "|u", 1},
		{SubmitJobLow, "f\x00u\x00\x00", "f|u", 1},
		{SubmitJobLowBG, "f\x00u\x00" + long, "f|u", 9000},
		{SubmitJobEpoch, "f\x00u\x0012\x00data", "f|u|12", 4},
		{SubmitJobSched, "f\x00u\x0059\x0023\x0031\x0012\x00\x00data", "f|u|59|23|31|12|", 4},
		{SubmitReduceJob, "f\x00u\x00r\x00i\x00data", "f|u|r|i", 4},
		{SubmitReduceJobBG, "f\x00u\x00\x00\x00", "f|u||", 0},
		{WorkStatus, "h\x001\x002", "h|1|2", 0},
		{WorkStatus, "h\x001\x002\x003", "h|1|2\x003", 0},
		{WorkComplete, "h\x00", "h", 0},
		{WorkData, "h\x00\x00d", "h", 2},
		{WorkWarning, "h\x00w", "h", 1},
		{WorkException, "h\x00e", "h", 1},
		{WorkFail, "h", "h", 0},
		{WorkFail, h63 + "\x00more", h63, 0},
		{GetStatus, h63 + "\x00", h63, 0},
		{GetStatusUnique, u64 + "\x00", u64, 0},
		{OptionReq, "exceptions\x00", "exceptions\x00", 0},
		{EchoReq, "a\x00b\nc\xff", "", 6},
		{EchoReq, "", "", 0},
		{CanDoTimeout, "f\x005", "f|5", 0},
	}
	seen := map[Type]bool{}
	for _, tt := range tests {
		seen[tt.t] = true
		input := []byte(req(tt.t, tt.body) + "\x00REQ")
		used := HeaderSize + len(tt.body) - tt.size
		var m Message
		n, fault := Parse(&m, input, DefaultMaxBody)
		if n != used || fault != nil || m.Type != tt.t || m.Size != tt.size || args(&m) != tt.args {
			t.Errorf("Parse(%v %.40q) = %d, %v: %v %.60q, %d more; want %d: %.60q, %d more",
				tt.t, tt.body, n, fault, m.Type, args(&m), m.Size, used, tt.args, tt.size)
		}
		// The arguments are known before the data is there, and not sooner.
		if n, fault := Parse(&m, input[:used], DefaultMaxBody); n != used || fault != nil {
			t.Errorf("Parse(%v %.40q) = %d, %v without the data", tt.t, tt.body, n, fault)
		}
		if n, fault := Parse(&m, input[:used-1], DefaultMaxBody); n != 0 || fault != nil {
			t.Errorf("Parse(%v %.40q) = %d, %v with a byte missing", tt.t, tt.body, n, fault)
		}
	}
	for typ := range NumTypes {
		if shapes[typ].to&toServer != 0 && !seen[typ] {
			t.Errorf("no test for %v", typ)
		}
	}
}

func TestParseReadsValues(t *testing.T) {
	var m Message
	parse := func(typ Type, body string) *Message {
		t.Helper()
		if _, fault := Parse(&m, []byte(req(typ, body)), DefaultMaxBody); fault != nil {
			t.Fatalf("%v %q: %v", typ, body, fault)
		}
		return &m
	}
	for s, want := range map[string]int64{"0": 0, "-5": -5, "soon": 0, " 12x": 12, "": 0, "9223372036854775807": 1<<63 - 1, "-9223372036854775808": -1 << 63} {
		if got := parse(SubmitJobEpoch, "f\x00u\x00"+s+"\x00d").Epoch; got != want {
			t.Errorf("epoch %q is %d, want %d", s, got, want)
		}
	}
	for s, want := range map[string]time.Duration{
		"0": 0, "-1": 0, "x": 0, "": 0, "1": time.Second, "999": time.Second, "1500": 1500 * time.Millisecond,
		"99999999999999999999": (1<<63 - 1) / time.Millisecond * time.Millisecond,
	} {
		if got := parse(CanDoTimeout, "f\x00"+s).Timeout; got != want {
			t.Errorf("timeout %q is %v, want %v", s, got, want)
		}
	}
	for s, want := range map[string]uint32{"50": 50, "1.5": 1, "abc": 0, "-1": 1<<32 - 1, "4294967297": 1, "99999999999999999999": 1<<32 - 1} {
		if got := parse(WorkStatus, "h\x00"+s+"\x00"+s); got.Numerator != want || got.Denominator != want {
			t.Errorf("status %q is %d/%d, want %d", s, got.Numerator, got.Denominator, want)
		}
	}
	want := Schedule{Minute: 5, Hour: anyValue, Day: anyValue, Month: 2, Weekday: 6}
	if got := parse(SubmitJobSched, "f\x00u\x0005\x00*\x00\x002\x006\x00d").Schedule; got != want {
		t.Errorf("schedule is %+v, want %+v", got, want)
	}
	if got := parse(SubmitReduceJob, "f\x00u\x00r\x00\x00d").Reducer(); string(got) != "r" {
		t.Errorf("reducer is %q", got)
	}
	if got := parse(SubmitJob, "f\x00u\x00d").Reducer(); got != nil {
		t.Errorf("reducer is %q", got)
	}
}

func TestParseReply(t *testing.T) {
	for _, tt := range []struct {
		input, args string
		typ         Type
		size        int
		fault       *Fault
	}{
		{res(JobCreated, "H:lap:1"), "H:lap:1", JobCreated, 0, nil},
		{res(JobAssignAll, "h\x00f\x00u\x00r\x00data"), "h|f|u|r", JobAssignAll, 4, nil},
		{res(StatusResUnique, "u\x001\x000\x000\x000\x002"), "u|1|0|0|0|2", StatusResUnique, 0, nil},
		{res(WorkFail, strings.Repeat("h", 100)), strings.Repeat("h", 100), WorkFail, 0, nil},
		{res(Error, "code\x00text\x00"), "code|text\x00", Error, 0, nil},
		{"OK 2.0.0\n", "OK 2.0.0", Text, 0, nil},
		{"OK\r\n.\n", "OK", Text, 0, nil},
		{res(GrabJob, ""), "", GrabJob, 0, ErrUnexpected},
		{req(Noop, ""), "", Noop, 0, ErrDirection},
		{res(Error, "code"), "", Error, 0, ErrArguments},
	} {
		var m Message
		n, fault := ParseReply(&m, []byte(tt.input), DefaultMaxBody)
		if n == 0 || fault != tt.fault || m.Type != tt.typ || m.Size != tt.size || args(&m) != tt.args {
			t.Errorf("ParseReply(%q) = %d, %v: %v %q, %d more", tt.input, n, fault, m.Type, args(&m), m.Size)
		}
	}
}

func TestFaultsThatEndConnections(t *testing.T) {
	for _, fault := range []*Fault{ErrMagic, ErrType, ErrTooLarge, ErrLineTooLong, ErrTooManyWords} {
		if !fault.Close {
			t.Errorf("%v must end the connection", fault)
		}
	}
	for _, fault := range []*Fault{ErrDirection, ErrUnexpected, ErrArguments, ErrArgumentTooLarge, ErrUnique, ErrHandle, ErrFailHandle,
		ErrEpoch, ErrSchedule, ErrUnknownCommand, ErrIncomplete, ErrShow, ErrCancel} {
		if fault.Close {
			t.Errorf("%v must not end the connection", fault)
		}
	}
}

func TestTypes(t *testing.T) {
	if got := fmt.Sprint(SubmitJobHighBG, NumTypes, Type(1<<31)); got != "SUBMIT_JOB_HIGH_BG unknown unknown" {
		t.Error(got)
	}
	for typ := range NumTypes {
		priority, background, ok := typ.Submits()
		name := typ.String()
		if ok != strings.HasPrefix(name, "SUBMIT") {
			t.Errorf("%v submits: %v", typ, ok)
		}
		if !ok {
			continue
		}
		if want := strings.Contains(name, "_BG") || strings.Contains(name, "BACKGROUND") || typ == SubmitJobEpoch || typ == SubmitJobSched; background != want {
			t.Errorf("%v in the background: %v", typ, background)
		}
		want := Normal
		if strings.Contains(name, "HIGH") {
			want = High
		} else if strings.Contains(name, "LOW") {
			want = Low
		}
		if priority != want {
			t.Errorf("%v has priority %v", typ, priority)
		}
		if !typ.HasData() {
			t.Errorf("%v has no data", typ)
		}
	}
	if EchoRes.HasData() != true || GrabJob.HasData() || Type(1<<31).HasData() {
		t.Error("HasData")
	}
}

func TestIsExceptions(t *testing.T) {
	for option, want := range map[string]bool{"": false, "bogus": false, "exception": false, "exceptions ": false, "x\x00exceptions": false,
		"exceptions": true, "EXCEptions": true, "exceptions\x00": true} {
		if got := IsExceptions([]byte(option)); got != want {
			t.Errorf("IsExceptions(%q) = %v", option, got)
		}
	}
}

func TestAuthOption(t *testing.T) {
	for option, want := range map[string]string{"auth x": "x", "auth x\x00y": "x", "auth  x": " x", "auth ": "", "auth": "-", "AUTH x": "-", "": "-", "auth\x00 x": "-", " auth x": "-"} {
		token, ok := AuthOption([]byte(option))
		if ok != (want != "-") || ok && string(token) != want {
			t.Errorf("AuthOption(%q) = %q, %v", option, token, ok)
		}
	}
}

// TestAuthLineHasOneToken: another number of words is a token that no server has.
func TestAuthLineHasOneToken(t *testing.T) {
	for line, want := range map[string]string{"auth x": "x", "AUTH  x\r": "x", "auth": "", "auth ": "", "auth x y": "", "auth x\x00y": "x", "auth \"x\"": `"x"`} {
		var m Message
		n, fault := Parse(&m, []byte(line+"\nrest"), 0)
		if n != len(line)+1 || fault != nil || m.Verb != Auth || m.N != 1 || string(m.Args[0]) != want {
			t.Errorf("Parse(%q) = %d, %v, %v, %q", line, n, fault, m.Verb, m.Args[:m.N])
		}
	}
}

func TestHandles(t *testing.T) {
	if MaxPrefix != 42 {
		t.Errorf("MaxPrefix is %d", MaxPrefix)
	}
	for prefix, want := range map[string]bool{"H:lap": true, "": true, "H:käse": true, "a b": false, "a\x00": false, "a\n": false, "\x7f": false,
		strings.Repeat("p", MaxPrefix): true, strings.Repeat("p", MaxPrefix+1): false} {
		if got := ValidPrefix(prefix); got != want {
			t.Errorf("ValidPrefix(%q) = %v", prefix, got)
		}
	}
	for _, bad := range []string{"", "H:lap", "H:lap:", "H:lap:0", "H:lap:01", "H:lap:+1", "H:lap:1 ", "H:lap:1x", "H:lap:-1", "H:lab:1", "H:lap1", "1",
		"H:lap:18446744073709551616", "H:lap:184467440737095516150", "H:lap::1"} {
		if id, ok := ParseHandle("H:lap", []byte(bad)); ok {
			t.Errorf("ParseHandle(%q) = %d", bad, id)
		}
	}
	for _, id := range []uint64{1, 9, 10, 99, 100, 1<<64 - 1} {
		for _, prefix := range []string{"", "H:lap", strings.Repeat("p", MaxPrefix)} {
			h := Handle{prefix, id}
			b := h.appendTo(nil)
			if got, ok := ParseHandle(prefix, b); !ok || got != id || len(b) != h.size() || len(b) > MaxHandle || h.String() != string(b) {
				t.Errorf("ParseHandle(%q) = %d, %v", b, got, ok)
			}
		}
	}
}

// A message is reused, and must not remember.
func TestParseForgets(t *testing.T) {
	var m Message
	Parse(&m, []byte("cancel job H:lap:1\n"), DefaultMaxBody)
	if m.Verb != CancelJob || m.Type != Text || args(&m) != "H:lap:1" {
		t.Fatalf("%+v", m)
	}
	Parse(&m, []byte(req(GrabJob, "")), DefaultMaxBody)
	if m.Verb != Unknown || m.N != 0 {
		t.Errorf("a packet has the verb %v", m.Verb)
	}
	Parse(&m, []byte(req(EchoReq, "x")), DefaultMaxBody)
	Parse(&m, []byte("status\n"), DefaultMaxBody)
	if m.Size != 0 || m.Type != Text {
		t.Errorf("a line has size %d", m.Size)
	}
	if !reflect.DeepEqual(m.Word, []byte("status")) {
		t.Errorf("its word is %q", m.Word)
	}
}
