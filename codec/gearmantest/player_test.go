package gearmantest

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
)

// fake is a server that answers echoes, and says what a line tells it to: that
// is enough to see whether the player notices.
func fake(t *testing.T) Start {
	return func(*Case, string) (*Server, error) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		exited := make(chan struct{})
		stop := func() { l.Close() }
		t.Cleanup(stop)
		go func() {
			defer close(exited)
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go obey(c, stop)
			}
		}()
		return &Server{Address: l.Addr().String(), Exited: exited, Err: func() error { return errors.New("status 1") }, Stop: stop,
			Signal: func(string) error { stop(); return nil }}, nil
	}
}

func obey(c net.Conn, stop func()) {
	defer c.Close()
	r := bufio.NewReader(c)
	for {
		first, err := r.Peek(1)
		if err != nil {
			return
		}
		if first[0] == 0 {
			head := make([]byte, 12)
			if _, err := io.ReadFull(r, head); err != nil {
				return
			}
			body := make([]byte, binary.BigEndian.Uint32(head[8:]))
			if _, err := io.ReadFull(r, body); err != nil {
				return
			}
			copy(head, "\x00RES\x00\x00\x00\x11")
			_, _ = c.Write(append(head, body...))
			continue
		}
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "say":
			_, _ = io.WriteString(c, strings.ReplaceAll(rest, "|", "\n"))
		case "stop":
			stop()
		default:
			return
		}
	}
}

// A player that never fails proves nothing: each of these must fail, with the
// words given.
func TestPlayFails(t *testing.T) {
	for name, tt := range map[string]struct{ steps, words string }{
		"other bytes":     {`A> "say ab|\n"` + "\n" + `A< "ax"`, `got  "ab`},
		"wrong packet":    {"A> ECHO_REQ \"x\"\n" + `A< ECHO_RES "y"`, "got  ECHO_RES \"x\"\n\twant ECHO_RES \"y\""},
		"end":             {`A> "bye\n"` + "\n" + `A< "x"`, "got  nothing, and the server closed"},
		"too early":       {`A> ECHO_REQ "x"` + "\n" + `A<[9000] ECHO_RES "x"`, "want it after 9s"},
		"no silence":      {"A> ECHO_REQ \"x\"\nA-", "want silence"},
		"silence at end":  {"A> \"bye\\n\"\nA-", "the server closed\n\twant silence"},
		"not closed":      {"A> ECHO_REQ \"x\"\nA!", "want the server to close"},
		"unread":          {`A> ECHO_REQ "x"`, "after the last step: on A, got  ECHO_RES"},
		"too much":        {`A> "say abc\n"` + "\n" + `A< "ab"`, `got  "c"`},
		"other set":       {`A> "say b|a|.|\n"` + "\n" + `A<set "a\nc\n.\n"`, "want the lines of"},
		"no match":        {`A> "bye\n"` + "\n" + `A<~ x`, "want a match of x"},
		"dead":            {"A> \"stop\\n\"", "the server is not alive"},
		"dead when asked": {"signal SIGTERM\nserver alive", "refused"},
		"status":          {"signal SIGTERM\nserver exits 0", "status 1"},
		"no server":       {"server kill\nA open", "there is no server"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := parseOne(t, tt.steps)
			err := Run(c, fake(t), Options{}, t.TempDir())
			if err == nil || !strings.Contains(err.Error(), tt.words) || !strings.Contains(err.Error(), "GC-001 [M] title") {
				t.Errorf("got  %v\nwant %s", err, tt.words)
			}
		})
	}
}

func TestPlayPasses(t *testing.T) {
	c := parseOne(t, `
		A>> ECHO_REQ "x" "y"*3
		A< ECHO_RES "xyyy"
		A> "say b|a|.|\n"
		A<set "a\nb\n.\n"
		A> "say {version} H:lap:1|\n"
		A< "2.0 H:x:1\n"
		A> "say 12|\n"
		A<~ [0-9]+\n
		A? "say ab|\n" => "ab\n"
		A-
		B> "bye\n"
		B!
		C>| "say .|\n"
		C< ".\n"
		C!
		A close
		server alive`)
	if err := Run(c, fake(t), Options{Prefix: "H:x", Vars: map[string]string{"version": "2.0"}}, t.TempDir()); err != nil {
		t.Error(err)
	}
}

func parseOne(t *testing.T, steps string) *Case {
	t.Helper()
	cases, err := Parse("f.txt", "GC-001 [M] title\n  "+strings.ReplaceAll(steps, "\n", "\n  "))
	if err != nil {
		t.Fatal(err)
	}
	return cases[0]
}

func TestParseRefuses(t *testing.T) {
	for _, bad := range []string{
		"  A> \"x\"", "GC-1 title", "GC-1 [Q] title", "A> \"x\"",
		"GC-1 [M] t\n  nonsense", "GC-1 [M] t\n  A> ", "GC-1 [M] t\n  A> x", `GC-1 [M] t` + "\n" + `  A> "x`, "GC-1 [M] t\n  A> \"\\q\"",
		"GC-1 [M] t\n  A> \"\\xZZ\"", "GC-1 [M] t\n  A> \"a\"*x", "GC-1 [M] t\n  A> hex 0", "GC-1 [M] t\n  A> REQ x", "GC-1 [M] t\n  A<~ (",
		"GC-1 [M] t\n  A? \"x\"", "GC-1 [M] t\n  A- x", "GC-1 [M] t\n  sleep x", "GC-1 [M] t\n  server dances", "GC-1 [M] t\n  A dances",
	} {
		if _, err := Parse("f.txt", bad); err == nil || !strings.Contains(err.Error(), "f.txt:") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestBytes(t *testing.T) {
	for s, want := range map[string]string{
		`"a\0\n\r\t\x41\"\\"`:         "a\x00\n\r\tA\"\\",
		`"ab"*3 "c" "d"*0`:            "abababc",
		`hex 00 52|45 ff`:             "\x00RE\xff",
		`CAN_DO "f"`:                  "\x00REQ\x00\x00\x00\x01\x00\x00\x00\x01f",
		`NOOP`:                        "\x00REQ\x00\x00\x00\x06\x00\x00\x00\x00",
		`RES 0x8000002a "u"*2 "\0"`:   "\x00RES\x80\x00\x00\x2a\x00\x00\x00\x03uu\x00",
		`STATUS_RES_UNIQUE "\x00" ""`: "\x00REQ\x00\x00\x00\x2a\x00\x00\x00\x01\x00",
	} {
		text, err := parseText(s, "REQ")
		if err != nil {
			t.Errorf("%s: %v", s, err)
		} else if got := string(text.expand(&Options{})); got != want {
			t.Errorf("%s is %q, want %q", s, got, want)
		}
	}
}

// Every observation that has a number, and every rule about the store.
func TestCasesAreThere(t *testing.T) {
	all, err := Cases()
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, c := range all {
		group, _, _ := strings.Cut(c.Name, "-")
		count[group]++
		count[string(c.Tag)]++
		if len(c.Steps) == 0 {
			t.Errorf("%s has no step", c.Name)
		}
	}
	for what, least := range map[string]int{"GC": 93, "PE": 13, "M": 60, "V": 4, "I": 30, "X": 5} {
		if count[what] < least {
			t.Errorf("%d cases %s, want at least %d", count[what], what, least)
		}
	}
}
