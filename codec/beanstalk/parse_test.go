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

// acceptedLines and refusedLines are the corners of the grammar, by beanstalkd 1.13; where its
// protocol.txt differs, by prot.c. The twin says what each one means. A line stands without
// its \r\n.
var acceptedLines = []string{
	"put 1 2 3 4", "put 0 0 0 0", "put   1  2   3 4", "put 01 002 0003 00004", "put 4294967295 4294967295 4294967295 4294967295",
	"put 1 2 3 4 ", "put 1 2 3 4x", "put 1 2 3 4 5", "put 1 2 3 4\n",
	"reserve", "reserve-with-timeout 0", "reserve-with-timeout 2147483647", "reserve-with-timeout   7", "reserve-with-timeout 7 and more",
	"reserve-with-timeout 7x", "reserve-with-timeout 7-", "reserve-job 18446744073709551615",
	"delete 1", "delete 0", "delete   12", "delete 18446744073709551615", "delete " + strings.Repeat("0", 100) + "18446744073709551615",
	"release 5 6 7", "release 18446744073709551615 4294967295 4294967295", "bury 5 6", "touch 5",
	"peek 5", "peek-ready", "peek-delayed", "peek-buried", "kick-job 5", "stats-job 5",
	"kick 5", "kick \t\n\v\f 5", "kick +5", "kick -1", "kick -18446744073709551615", "kick 4294967296", "kick 4294967303",
	"kick 18446744073709551615", "kick 5 6", "kick 0x10", "kick 5.9",
	"use t", "use " + name200, "watch a-Z0+/;.$_()", "ignore default", "stats-tube default",
	"list-tubes", "list-tube-used", "list-tubes-watched", "stats",
	"pause-tube t 5", "pause-tube t 0", "pause-tube   t   5", "pause-tubefoo 5", "pause-tube 5 6", "pause-tube " + name200 + " 4294967295",
	"quit", "quit now", "quitter",
	"auth token", "auth ", "auth  two words", "auth " + name201,
}

var refusedLines = []string{
	// No such command.
	"", " ", "p", "pu", "x", "foo", "PUT 1 2 3 4", "Reserve", " put 1 2 3 4", "\nput 1 2 3 4", "\tstats", "help",
	"peek", "peek-", "peekready", "peek-job 1", "reserv", "list", "list-tube", "list-tub", "stat", "qui", "pause", "pause-tub", "auth", "auth\tx", "authx", "AUTH x",
	// A word that takes an argument needs its space.
	"put", "put1 2 3 4", "put\t1 2 3 4", "delete", "delete1", "release", "bury", "touch", "kick", "kick-job", "kick5",
	"use", "watch", "ignore", "use\tfoo", "peek1", "ignored", "usefoo",
	// A word that is the beginning of another.
	"stats-tube", "stats-job", "stats-foo", "reserve-with-timeout", "reserve-job", "reserve-foo", "list-tubes-watch",
	// Bytes after a command without arguments.
	"reserve ", "reserve 1", "reservex", "peek-ready ", "peek-readyx", "peek-delayed 1", "peek-delayedx", "peek-buried 1",
	"peek-buried ", "stats ", "statsx", "list-tubes ", "list-tubesx", "list-tube-used ", "list-tube-usedx",
	"list-tubes-watched ", "list-tubes-watchedx", "stats\n",
	// Put without four numbers.
	"put ", "put  ", "put 1", "put 1 2", "put 1 2 3", "put 1 2 3 ", "put a 2 3 4", "put 1 a 3 4", "put 1 2 a 4", "put 1 2 3 a",
	"put 1,2,3,4", "put 1\t2 3 4", "put \t1 2 3 4", "put 1x 2 3 4", "put 1.0 2 3 4",
	// No sign on a number.
	"put -1 2 3 4", "put 1 -2 3 4", "put 1 2 -3 4", "put 1 2 3 -4", "put +1 2 3 4", "delete -1", "delete +1",
	"reserve-with-timeout -1", "reserve-with-timeout +1", "release 1 -1 0", "bury 1 -1", "pause-tube t -1",
	// 32 bits.
	"put 4294967296 2 3 4", "put 1 4294967296 3 4", "put 1 2 4294967296 4", "put 1 2 3 4294967296",
	"put 18446744073709551616 2 3 4", "release 1 4294967296 1", "release 1 1 4294967296", "bury 1 4294967296",
	"pause-tube t 4294967296", "put 99999999999999999999999999999 2 3 4",
	// 31 bits of timeout.
	"reserve-with-timeout 2147483648", "reserve-with-timeout 4294967295", "reserve-with-timeout 4294967296",
	"reserve-with-timeout ", "reserve-with-timeout x", "reserve-with-timeout \t1",
	// 64 bits.
	"delete 18446744073709551616", "delete 18446744073709551620", "delete 184467440737095516150", "delete 99999999999999999999",
	"touch 18446744073709551616", "peek 18446744073709551616", "release 18446744073709551616 1 1",
	// An id alone.
	"delete ", "delete x", "delete 1 ", "delete 1 2", "delete 1x", "delete \t1", "delete 1\n",
	"touch ", "touch 1 ", "touch x", "peek ", "peek x", "peek 1 ", "reserve-job ", "reserve-job x", "reserve-job 1 ",
	"kick-job ", "kick-job x", "kick-job 1 ", "kick-job +1", "stats-job ", "stats-job x", "stats-job 1 ",
	// Release and bury.
	"release ", "release 1", "release 1 2", "release x 2 3", "release 1 x 3", "release 1 2 x", "release 1 2 3 ", "release 1 2 3 4",
	"bury ", "bury 1", "bury x 1", "bury 1 x", "bury 1 2 ", "bury 1 2 3",
	// Kick as strtoul.
	"kick ", "kick  ", "kick x", "kick -", "kick +", "kick --1", "kick +-1", "kick - 1",
	"kick 18446744073709551616", "kick -18446744073709551616",
	// Tube names.
	"use ", "use -t", "use " + name201, "use a b", "use a ", "use  a", "use a\n", "use \xc3\xa4", "use a,b", "use a:b", "use a\x7f",
	"watch ", "watch -t", "watch " + name201, "watch a b", "watch  a",
	"ignore ", "ignore -t", "ignore " + name201, "ignore a b", "ignore  a",
	"stats-tube ", "stats-tube -t", "stats-tube " + name201, "stats-tube a b", "stats-tube  a",
	// Pause-tube.
	"pause-tube", "pause-tube ", "pause-tube t", "pause-tube t ", "pause-tube t x", "pause-tube t 1 ", "pause-tube t 1x",
	"pause-tube t5", "pause-tube t\t5", "pause-tube\tt 5", "pause-tube t@5", "pause-tube @ 5", "pause-tube -t x",
	// A NUL anywhere.
	"\x00", "foo\x00", "\x00put 1 2 3 4", "put 1 2 3 4\x00", "reserve-with-timeout 1\x00", "kick 1\x00", "quit\x00", "use a\x00b",
	// A bad name of pause-tube, which still counts as the command.
	"pause-tube -t 1", "pause-tube-t 1", "pause-tube -1 1", "pause-tube " + name201 + " 1",
}

// lineEnds are inputs with ends of lines in odd places, and lines at the limit.
var lineEnds = []string{
	"", "\r", "\n", "\r\n", "stats", "stats\r", "stats\n", "stats\nstats\r\n", "stats\r\n", "stats\r\nstats\r\n",
	"stats\r\r\n", "a\rb\r\n", "a\rb\r\nstats\r\n" + xs(MaxLine-13), "a\rb\r\nstats\r\n" + xs(MaxLine-12), // the first \r decides
	longest, longest + "stats\r\n", xs(MaxLine-2) + "\r\n", xs(MaxLine - 1), xs(MaxLine-1) + "\r", xs(MaxLine-1) + "\r\n",
	xs(MaxLine), xs(MaxLine) + "\r\n", strings.Repeat("\r", MaxLine), strings.Repeat("\x00", MaxLine),
	"xx\r\nstats\r\n", xs(2*MaxLine + 5), xs(2*MaxLine+5) + "\r\nstats\r\n", "a\rb\r\n" + xs(MaxLine), "a\rb\r\n" + xs(MaxLine) + "\r\nstats\r\n",
	xs(MaxLine-1) + "\r\nstats\r\n", xs(MaxLine-2) + "\r\nstats\r\n", "\x00\r\n", // a line end over the edge of a window is none
}

func xs(n int) string { return strings.Repeat("x", n) }

func TestParseAgreesWithItsTwin(t *testing.T) {
	seen := map[Kind]bool{}
	for i, lines := range [][]string{acceptedLines, refusedLines} {
		for _, line := range lines {
			cmd := Command{Kind: Touch}
			n, err := Parse(&cmd, []byte(line+"\r\nmore"))
			if accepted := i == 0; n != len(line)+2 || (err == nil) != accepted || !accepted && cmd.Kind == Touch {
				t.Errorf("Parse(%q) = %d, %v", line, n, err)
			}
			checkParse(t, []byte(line+"\r\nmore"))
			seen[cmd.Kind] = true
		}
	}
	for kind := range NumKinds {
		if !seen[kind] {
			t.Errorf("no line for %v", kind)
		}
	}
	for _, input := range lineEnds {
		checkParse(t, []byte(input))
		for _, chunk := range []int{1, 7, MaxLine} {
			checkSkip(t, []byte(input), chunk)
		}
	}
	if len(longest) != MaxLine {
		t.Fatalf("the longest command has %d bytes, want %d", len(longest), MaxLine)
	}
}

// longest is the longest line there is a command for: 224 bytes.
var longest = "pause-tube " + name200 + " 4294967295\r\n"

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
