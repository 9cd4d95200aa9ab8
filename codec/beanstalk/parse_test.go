package beanstalk

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

var (
	name200 = strings.Repeat("n", MaxTubeName)
	name201 = name200 + "n"
)

// The rules below are from beanstalkd 1.13; where its protocol.txt differs,
// of its prot.c. A line stands without its \r\n.

func TestParseAccepts(t *testing.T) {
	tests := []struct {
		line string
		want Command
	}{
		{"put 1 2 3 4", Command{Kind: Put, Pri: 1, Delay: 2, TTR: 3, Size: 4}},
		{"put 0 0 0 0", Command{Kind: Put, TTR: 1}},
		{"put   1  2   3 4", Command{Kind: Put, Pri: 1, Delay: 2, TTR: 3, Size: 4}},
		{"put 01 002 0003 00004", Command{Kind: Put, Pri: 1, Delay: 2, TTR: 3, Size: 4}},
		{"put 4294967295 4294967295 4294967295 4294967295",
			Command{Kind: Put, Pri: 1<<32 - 1, Delay: 1<<32 - 1, TTR: 1<<32 - 1, Size: 1<<32 - 1}},
		{"put 1 2 3 4 ", Command{Kind: Put, Pri: 1, Delay: 2, TTR: 3, Size: 4, Trailing: true}},
		{"put 1 2 3 4x", Command{Kind: Put, Pri: 1, Delay: 2, TTR: 3, Size: 4, Trailing: true}},
		{"put 1 2 3 4 5", Command{Kind: Put, Pri: 1, Delay: 2, TTR: 3, Size: 4, Trailing: true}},
		{"put 1 2 3 4\n", Command{Kind: Put, Pri: 1, Delay: 2, TTR: 3, Size: 4, Trailing: true}},

		{"reserve", Command{Kind: Reserve}},
		{"reserve-with-timeout 0", Command{Kind: ReserveWithTimeout}},
		{"reserve-with-timeout 2147483647", Command{Kind: ReserveWithTimeout, Timeout: 1<<31 - 1}},
		{"reserve-with-timeout   7", Command{Kind: ReserveWithTimeout, Timeout: 7}},
		{"reserve-with-timeout 7 and more", Command{Kind: ReserveWithTimeout, Timeout: 7}},
		{"reserve-with-timeout 7x", Command{Kind: ReserveWithTimeout, Timeout: 7}},
		{"reserve-with-timeout 7-", Command{Kind: ReserveWithTimeout, Timeout: 7}},
		{"reserve-job 18446744073709551615", Command{Kind: ReserveJob, ID: 1<<64 - 1}},

		{"delete 1", Command{Kind: Delete, ID: 1}},
		{"delete 0", Command{Kind: Delete}},
		{"delete   12", Command{Kind: Delete, ID: 12}},
		{"delete 18446744073709551615", Command{Kind: Delete, ID: 1<<64 - 1}},
		{"delete " + strings.Repeat("0", 100) + "18446744073709551615", Command{Kind: Delete, ID: 1<<64 - 1}},
		{"release 5 6 7", Command{Kind: Release, ID: 5, Pri: 6, Delay: 7}},
		{"release 18446744073709551615 4294967295 4294967295",
			Command{Kind: Release, ID: 1<<64 - 1, Pri: 1<<32 - 1, Delay: 1<<32 - 1}},
		{"bury 5 6", Command{Kind: Bury, ID: 5, Pri: 6}},
		{"touch 5", Command{Kind: Touch, ID: 5}},
		{"peek 5", Command{Kind: Peek, ID: 5}},
		{"peek-ready", Command{Kind: PeekReady}},
		{"peek-delayed", Command{Kind: PeekDelayed}},
		{"peek-buried", Command{Kind: PeekBuried}},
		{"kick-job 5", Command{Kind: KickJob, ID: 5}},
		{"stats-job 5", Command{Kind: StatsJob, ID: 5}},

		{"kick 5", Command{Kind: Kick, Bound: 5}},
		{"kick \t\n\v\f 5", Command{Kind: Kick, Bound: 5}},
		{"kick +5", Command{Kind: Kick, Bound: 5}},
		{"kick -1", Command{Kind: Kick, Bound: 1<<32 - 1}},
		{"kick -18446744073709551615", Command{Kind: Kick, Bound: 1}},
		{"kick 4294967296", Command{Kind: Kick, Bound: 0}},
		{"kick 4294967303", Command{Kind: Kick, Bound: 7}},
		{"kick 18446744073709551615", Command{Kind: Kick, Bound: 1<<32 - 1}},
		{"kick 5 6", Command{Kind: Kick, Bound: 5}},
		{"kick 0x10", Command{Kind: Kick, Bound: 0}},
		{"kick 5.9", Command{Kind: Kick, Bound: 5}},

		{"use t", Command{Kind: Use, Name: []byte("t")}},
		{"use " + name200, Command{Kind: Use, Name: []byte(name200)}},
		{"watch a-Z0+/;.$_()", Command{Kind: Watch, Name: []byte("a-Z0+/;.$_()")}},
		{"ignore default", Command{Kind: Ignore, Name: []byte("default")}},
		{"stats-tube default", Command{Kind: StatsTube, Name: []byte("default")}},
		{"list-tubes", Command{Kind: ListTubes}},
		{"list-tube-used", Command{Kind: ListTubeUsed}},
		{"list-tubes-watched", Command{Kind: ListTubesWatched}},
		{"stats", Command{Kind: Stats}},

		{"pause-tube t 5", Command{Kind: PauseTube, Name: []byte("t"), Delay: 5}},
		{"pause-tube t 0", Command{Kind: PauseTube, Name: []byte("t")}},
		{"pause-tube   t   5", Command{Kind: PauseTube, Name: []byte("t"), Delay: 5}},
		{"pause-tubefoo 5", Command{Kind: PauseTube, Name: []byte("foo"), Delay: 5}},
		{"pause-tube 5 6", Command{Kind: PauseTube, Name: []byte("5"), Delay: 6}},
		{"pause-tube " + name200 + " 4294967295", Command{Kind: PauseTube, Name: []byte(name200), Delay: 1<<32 - 1}},

		{"quit", Command{Kind: Quit}},
		{"quit now", Command{Kind: Quit}},
		{"quitter", Command{Kind: Quit}},
	}
	seen := map[Kind]bool{}
	for _, tt := range tests {
		input := []byte(tt.line + "\r\nmore")
		var cmd Command
		n, err := Parse(&cmd, input)
		if n != len(tt.line)+2 || err != nil || !reflect.DeepEqual(cmd, tt.want) {
			t.Errorf("Parse(%q) = %d, %v, %+v; want %d, nil, %+v", tt.line, n, err, cmd, len(tt.line)+2, tt.want)
		}
		seen[tt.want.Kind] = true
	}
	for kind := Unknown + 1; kind < NumKinds; kind++ {
		if !seen[kind] {
			t.Errorf("no line for %v", kind)
		}
	}
}

func TestParseRejects(t *testing.T) {
	tests := []struct {
		rule  string
		want  error
		lines []string
	}{
		{"no such command", ErrUnknownCommand, []string{
			"", " ", "p", "pu", "x", "foo", "PUT 1 2 3 4", "Reserve", " put 1 2 3 4", "\nput 1 2 3 4", "\tstats", "help",
			"peek", "peek-", "peekready", "peek-job 1", "reserv", "list", "list-tube", "list-tub", "stat", "qui", "pause", "pause-tub",
		}},
		{"a word that takes an argument needs its space", ErrUnknownCommand, []string{
			"put", "put1 2 3 4", "put\t1 2 3 4", "delete", "delete1", "release", "bury", "touch", "kick", "kick-job", "kick5",
			"use", "watch", "ignore", "use\tfoo", "peek1", "ignored", "usefoo",
		}},
		{"a word that is the beginning of another", ErrBadFormat, []string{
			"stats-tube", "stats-job", "stats-foo", "reserve-with-timeout", "reserve-job", "reserve-foo", "list-tubes-watch",
		}},
		{"bytes after a command without arguments", ErrBadFormat, []string{
			"reserve ", "reserve 1", "reservex", "peek-ready ", "peek-readyx", "peek-delayed 1", "peek-delayedx", "peek-buried 1",
			"peek-buried ", "stats ", "statsx", "list-tubes ", "list-tubesx", "list-tube-used ", "list-tube-usedx",
			"list-tubes-watched ", "list-tubes-watchedx", "stats\n",
		}},
		{"put without four numbers", ErrBadFormat, []string{
			"put ", "put  ", "put 1", "put 1 2", "put 1 2 3", "put 1 2 3 ", "put a 2 3 4", "put 1 a 3 4", "put 1 2 a 4", "put 1 2 3 a",
			"put 1,2,3,4", "put 1\t2 3 4", "put \t1 2 3 4", "put 1x 2 3 4", "put 1.0 2 3 4",
		}},
		{"no sign on a number", ErrBadFormat, []string{
			"put -1 2 3 4", "put 1 -2 3 4", "put 1 2 -3 4", "put 1 2 3 -4", "put +1 2 3 4", "delete -1", "delete +1",
			"reserve-with-timeout -1", "reserve-with-timeout +1", "release 1 -1 0", "bury 1 -1", "pause-tube t -1",
		}},
		{"32 bits", ErrBadFormat, []string{
			"put 4294967296 2 3 4", "put 1 4294967296 3 4", "put 1 2 4294967296 4", "put 1 2 3 4294967296",
			"put 18446744073709551616 2 3 4", "release 1 4294967296 1", "release 1 1 4294967296", "bury 1 4294967296",
			"pause-tube t 4294967296", "put 99999999999999999999999999999 2 3 4",
		}},
		{"31 bits of timeout", ErrBadFormat, []string{
			"reserve-with-timeout 2147483648", "reserve-with-timeout 4294967295", "reserve-with-timeout 4294967296",
			"reserve-with-timeout ", "reserve-with-timeout x", "reserve-with-timeout \t1",
		}},
		{"64 bits", ErrBadFormat, []string{
			"delete 18446744073709551616", "delete 18446744073709551620", "delete 184467440737095516150", "delete 99999999999999999999",
			"touch 18446744073709551616", "peek 18446744073709551616", "release 18446744073709551616 1 1",
		}},
		{"an id alone", ErrBadFormat, []string{
			"delete ", "delete x", "delete 1 ", "delete 1 2", "delete 1x", "delete \t1", "delete 1\n",
			"touch ", "touch 1 ", "touch x", "peek ", "peek x", "peek 1 ", "reserve-job ", "reserve-job x", "reserve-job 1 ",
			"kick-job ", "kick-job x", "kick-job 1 ", "kick-job +1", "stats-job ", "stats-job x", "stats-job 1 ",
		}},
		{"release and bury", ErrBadFormat, []string{
			"release ", "release 1", "release 1 2", "release x 2 3", "release 1 x 3", "release 1 2 x", "release 1 2 3 ", "release 1 2 3 4",
			"bury ", "bury 1", "bury x 1", "bury 1 x", "bury 1 2 ", "bury 1 2 3",
		}},
		{"kick as strtoul", ErrBadFormat, []string{
			"kick ", "kick  ", "kick x", "kick -", "kick +", "kick --1", "kick +-1", "kick - 1",
			"kick 18446744073709551616", "kick -18446744073709551616",
		}},
		{"tube names", ErrBadFormat, []string{
			"use ", "use -t", "use " + name201, "use a b", "use a ", "use  a", "use a\n", "use \xc3\xa4", "use a,b", "use a:b", "use a\x7f",
			"watch ", "watch -t", "watch " + name201, "watch a b", "watch  a",
			"ignore ", "ignore -t", "ignore " + name201, "ignore a b", "ignore  a",
			"stats-tube ", "stats-tube -t", "stats-tube " + name201, "stats-tube a b", "stats-tube  a",
		}},
		{"pause-tube", ErrBadFormat, []string{
			"pause-tube", "pause-tube ", "pause-tube t", "pause-tube t ", "pause-tube t x", "pause-tube t 1 ", "pause-tube t 1x",
			"pause-tube t5", "pause-tube t\t5", "pause-tube\tt 5", "pause-tube t@5", "pause-tube @ 5", "pause-tube -t x",
		}},
		{"a NUL anywhere", ErrBadFormat, []string{
			"\x00", "foo\x00", "\x00put 1 2 3 4", "put 1 2 3 4\x00", "reserve-with-timeout 1\x00", "kick 1\x00", "quit\x00", "use a\x00b",
		}},
	}
	for _, tt := range tests {
		for _, line := range tt.lines {
			cmd := Command{Kind: Touch}
			n, err := Parse(&cmd, []byte(line+"\r\nmore"))
			if n != len(line)+2 || err != tt.want || cmd.Kind != Unknown {
				t.Errorf("%s: Parse(%q) = %d, %v, Kind %v; want %d, %v, unknown", tt.rule, line, n, err, cmd.Kind, len(line)+2, tt.want)
			}
		}
	}
}

func TestParseNamesPauseTubeWithBadName(t *testing.T) {
	for _, line := range []string{"pause-tube -t 1", "pause-tube-t 1", "pause-tube -1 1", "pause-tube " + name201 + " 1"} {
		var cmd Command
		n, err := Parse(&cmd, []byte(line+"\r\n"))
		if n != len(line)+2 || err != ErrBadFormat || cmd.Kind != PauseTube {
			t.Errorf("Parse(%q) = %d, %v, Kind %v; want %d, %v, pause-tube", line, n, err, cmd.Kind, len(line)+2, ErrBadFormat)
		}
	}
}

// longest is the longest line there is a command for: 224 bytes.
var longest = "pause-tube " + name200 + " 4294967295\r\n"

func TestParseFindsLineEnd(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	tests := []struct {
		input string
		n     int
		err   error
	}{
		{"", 0, nil},
		{"\r", 0, nil},
		{"\n", 0, nil},
		{"\r\n", 2, ErrUnknownCommand},
		{"stats", 0, nil},
		{"stats\r", 0, nil},
		{"stats\n", 0, nil},
		{"stats\nstats\r\n", 13, ErrBadFormat},
		{"stats\r\n", 7, nil},
		{"stats\r\nstats\r\n", 7, nil},
		// The first \r decides.
		{"stats\r\r\n", 0, nil},
		{"a\rb\r\n", 0, nil},
		{"a\rb\r\nstats\r\n" + long(MaxLine-13), 0, nil},
		{"a\rb\r\nstats\r\n" + long(MaxLine-12), MaxLine, ErrLineTooLong},
		// The limit.
		{longest, MaxLine, nil},
		{longest + "stats\r\n", MaxLine, nil},
		{long(MaxLine-2) + "\r\n", MaxLine, ErrUnknownCommand},
		{long(MaxLine - 1), 0, nil},
		{long(MaxLine-1) + "\r", MaxLine, ErrLineTooLong},
		{long(MaxLine-1) + "\r\n", MaxLine, ErrLineTooLong},
		{long(MaxLine), MaxLine, ErrLineTooLong},
		{long(MaxLine) + "\r\n", MaxLine, ErrLineTooLong},
		{strings.Repeat("\r", MaxLine), MaxLine, ErrLineTooLong},
		{strings.Repeat("\x00", MaxLine), MaxLine, ErrLineTooLong},
	}
	if len(longest) != MaxLine {
		t.Fatalf("the longest command has %d bytes, want %d", len(longest), MaxLine)
	}
	for _, tt := range tests {
		var cmd Command
		if n, err := Parse(&cmd, []byte(tt.input)); n != tt.n || err != tt.err {
			t.Errorf("Parse(%q) = %d, %v; want %d, %v", tt.input, n, err, tt.n, tt.err)
		}
	}
}

func TestSkipLineByWindows(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	tests := []struct {
		input string
		n     int
		done  bool
	}{
		{"", 0, false},
		{"\r", 0, false},
		{"\n", 0, false},
		{"\r\n", 2, true},
		{"xx\r\nstats\r\n", 4, true},
		{long(MaxLine - 1), 0, false},
		{long(MaxLine), MaxLine, false},
		{long(2*MaxLine + 5), 2 * MaxLine, false},
		{long(2*MaxLine+5) + "\r\nstats\r\n", 2*MaxLine + 7, true},
		{"a\rb\r\n", 0, false},
		{"a\rb\r\n" + long(MaxLine), MaxLine, false},
		{"a\rb\r\n" + long(MaxLine) + "\r\nstats\r\n", MaxLine + 7, true},
		// A line end over the edge of a window is none.
		{long(MaxLine-1) + "\r\nstats\r\n", MaxLine + 8, true},
		{long(MaxLine-2) + "\r\nstats\r\n", MaxLine, true},
		{"\x00\r\n", 3, true},
	}
	for _, tt := range tests {
		if n, done := SkipLine([]byte(tt.input)); n != tt.n || done != tt.done {
			t.Errorf("SkipLine(%q) = %d, %v; want %d, %v", tt.input, n, done, tt.n, tt.done)
		}
	}
}

func TestParseLeavesUnusedFields(t *testing.T) {
	before := Command{Kind: Put, Trailing: true, ID: 1, Pri: 2, Delay: 3, TTR: 4, Size: 5, Timeout: 6, Bound: 7, Name: []byte("n")}
	cmd := before
	if _, err := Parse(&cmd, []byte("reserve\r\n")); err != nil {
		t.Fatal(err)
	}
	want := before
	want.Kind = Reserve
	if !reflect.DeepEqual(cmd, want) {
		t.Errorf("after reserve: %+v, want %+v", cmd, want)
	}
	// Trailing must not stick to the next put.
	if _, err := Parse(&cmd, []byte("put 1 2 3 4\r\n")); err != nil || cmd.Trailing {
		t.Errorf("after put: %v, Trailing %v; want nil, false", err, cmd.Trailing)
	}
}

func TestValidTubeName(t *testing.T) {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-+/;.$_()"
	for c := range 256 {
		want := strings.IndexByte(allowed, byte(c)) >= 0
		if got := ValidTubeName([]byte{'a', byte(c)}); got != want {
			t.Errorf("ValidTubeName(a%q) = %v, want %v", byte(c), got, want)
		}
		want = want && c != '-'
		if got := ValidTubeName([]byte{byte(c)}); got != want {
			t.Errorf("ValidTubeName(%q) = %v, want %v", byte(c), got, want)
		}
	}
	for name, want := range map[string]bool{"": false, name200: true, name201: false} {
		if got := ValidTubeName([]byte(name)); got != want {
			t.Errorf("ValidTubeName of %d bytes = %v, want %v", len(name), got, want)
		}
	}
}

func TestKindString(t *testing.T) {
	words := map[string]bool{}
	for kind := range NumKinds {
		word := kind.String()
		if word == "" || words[word] {
			t.Errorf("Kind %d has the word %q: empty or not its own", kind, word)
		}
		words[word] = true
	}
	if got := fmt.Sprint(ReserveWithTimeout, NumKinds); got != "reserve-with-timeout unknown" {
		t.Errorf("words are %q", got)
	}
}
