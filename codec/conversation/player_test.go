package conversation

import (
	"bufio"
	"io"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// The conversations say what the installed references say.
func TestReferenceConversations(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for _, p := range []*Protocol{Beanstalk, Gearman} {
		program, version, err := p.Reference()
		if err != nil {
			t.Skip(err)
		}
		start, tags := StartBeanstalkd(program), "M"
		if p == Gearman {
			start = StartGearmand(program)
		} else if !isUnquoted(version) {
			tags = "MV"
		}
		all, err := All(p)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		room := make(chan struct{}, 8) // most of them wait most of the time
		for _, c := range all {
			if c.SimOnly || !strings.Contains(tags, c.Tag) {
				continue
			}
			room <- struct{}{}
			wg.Go(func() {
				if err := playOften(c, start, version, t.TempDir()); err != nil {
					t.Error(err)
				}
				<-room
			})
		}
		wg.Wait()
	}
}

// playOften tries conversations with time several times: beanstalkd does not end a reservation
// in the very microsecond of its deadline, and it polls without pause in the last millisecond.
func playOften(c *Conversation, start Start, version, dir string) (err error) {
	for range 6 {
		if err = c.Run(start, Options{Version: version}, dir); err == nil || !c.Sleeps() || c.Protocol != Beanstalk {
			break
		}
	}
	return err
}

// fake starts a server that answers echoes, and sends what a line tells it to: that is
// enough to see whether the player notices.
func fake(t *testing.T) Start {
	return func(*Conversation, string) (*Server, error) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { l.Close() })
		// The process stands for the server.
		s := NewServer(exec.Command("sleep", "600"), l.Addr().String())
		if err := s.Start(); err != nil {
			return nil, err
		}
		go func() {
			<-s.Exited()
			l.Close()
		}()
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go obey(c, l)
			}
		}()
		return s, nil
	}
}

func obey(c net.Conn, l net.Listener) {
	defer c.Close()
	for r := bufio.NewReader(c); ; {
		first, err := r.Peek(1)
		if err != nil {
			return
		}
		if first[0] == 0 {
			head, _ := r.Peek(headerSize)
			if len(head) < headerSize {
				return
			}
			message := make([]byte, headerSize+int(head[11]))
			if _, err := io.ReadFull(r, message); err != nil {
				return
			}
			_, _ = io.WriteString(c, response(17, string(message[headerSize:])))
			continue
		}
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		switch word, rest, _ := strings.Cut(strings.TrimSpace(line), " "); word {
		case "say":
			_, _ = io.WriteString(c, strings.NewReplacer("|", "\n", "/", "\r\n").Replace(rest))
		case "stop":
			l.Close()
			_, _ = io.WriteString(c, "stopped\n")
		default:
			return
		}
	}
}

// A player that never fails proves nothing: each conversation must fail, with the words given.
func TestPlayFails(t *testing.T) {
	const stop = `a>> stop\n` + "\n" + `a<< stopped\n`
	for name, tt := range map[string]struct{ steps, words string }{
		"other bytes":     {`a>> say ab|\n` + "\na<< ax", "got  ab"},
		"wrong packet":    {"a> ECHO_REQ x\na< ECHO_RES y", "got  ECHO_RES x\n\twant ECHO_RES y"},
		"longer packet":   {"a> ECHO_REQ xy\na< ECHO_RES x", "got  ECHO_RES xy\n\twant ECHO_RES x"},
		"another type":    {"a> ECHO_REQ x\na< NOOP", "got  ECHO_RES x\n\twant NOOP"},
		"end":             {`a>> bye\n` + "\na<< x", "got  nothing, and the server closed"},
		"too early":       {"a> ECHO_REQ x\na<[9000] ECHO_RES x", "want it after 9s"},
		"no silence":      {"a> ECHO_REQ x\na< (nothing)", "want nothing"},
		"silence at end":  {`a>> bye\n` + "\na< (nothing)", "the server closed\n\twant nothing"},
		"not closed":      {"a> ECHO_REQ x\na< EOF", "want EOF"},
		"unread":          {"a> ECHO_REQ x", "after the last step: on a: got  ECHO_RES"},
		"unread at close": {"a> ECHO_REQ x\na! close", "got  ECHO_RES"},
		"too much":        {`a>> say abc\n` + "\na<< ab", "got  c"},
		"other set": {`a>> say b|a|.|\n` + `
a<set a\nc\n.\n`, "want the lines of"},
		"smaller set": {`a>> say b|a|.|\n` + `
a<set a\n.\n`, "want the lines of"},
		"another number":  {`a>> say 12|\n` + "\n" + `a<< {over 12}\n`, "got  12"},
		"not near":        {`a>> say 12|\n` + "\n" + `a<< {near 10}\n`, "got  12"},
		"no number":       {`a>> say x|\n` + "\n" + `a<< {n}\n`, "got  x"},
		"another name":    {`a>> say 12 13|\n` + "\n" + `a<< <job> <job>\n`, "<job> is 12"},
		"unknown name":    {"a> ECHO_REQ <job>", "sent before it was received"},
		"dead":            {stop, "the server is not alive"},
		"dead when asked": {stop + "\n! alive", "refused"},
		"status":          {"! SIGTERM\n! exits", "signal: terminated"},
		"no server":       {"! kill\na! open", "there is no server"},
		"body too short":  {`a>> say OK 9/---|a: 1|/\n` + "\n" + `a<< OK {size}\r\n` + "\na| ---\na| a: 1\na| b: 2", "YAML ends before b: 2"},
		"body too long":   {`a>> say OK 9/---|a: 1|/\n` + "\n" + `a<< OK {size}\r\n` + "\na| ---", "YAML goes on: a: 1"},
		"another value":   {`a>> say OK 9/---|a: 1|/\n` + "\n" + `a<< OK {size}\r\n` + "\na| ---\na| a: 2", "got  a: 1\n\twant a: 2"},
		"another size":    {`a>> say OK 8/---|a: 1|/\n` + "\n" + `a<< OK {size}\r\n` + "\na| ---\na| a: 1", "body of 8 bytes ends"},
		"line of nothing": {"a| a: 1", "without an OK {size}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := parseOne(t, Gearman, tt.steps).Run(fake(t), Options{}, t.TempDir())
			if err == nil || !strings.Contains(err.Error(), tt.words) || !strings.Contains(err.Error(), "GC-001") {
				t.Errorf("got  %v\nwant %s", err, tt.words)
			}
		})
	}
}

func TestPlayPasses(t *testing.T) {
	c := parseOne(t, Gearman, `a>. \0REQ\0\0\0\x10\0\0\0\x04xyyy
a< ECHO_RES x{3*y}
a>> say b|a|.|\n
a<set a\nb\n.\n
a>> say {version} H:lap:1|\n
a<< 2.0 H:lap:1\n
a>> say 12 12 12 13 11 13 x|\n
a<< {n} <job> <job> {near 12} {near 12} {over 12} {any}\n
a>> say <job>|\n
a<< 12\n
= say .|: .\n
a< (nothing)
b>> bye\n
b< EOF
c>> say .|\n
c! halfclose
c<< .\n
c< EOF
a! close
! alive
! kill
! start
a>> say OK 20/---|file: 7|host: x|/\n
a<< OK {size}\r\n
a| ---
a| file: 0
a| host: {any}`)
	if err := c.Run(fake(t), Options{Version: "2.0", Journaled: true}, t.TempDir()); err != nil {
		t.Error(err)
	}
}

func parseOne(t *testing.T, p *Protocol, steps string) *Conversation {
	t.Helper()
	all, err := parse(p, "f.txt", "== GC-001 [M] title\n"+steps)
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

func TestParseRefuses(t *testing.T) {
	for _, bad := range []string{
		"a> x\n== GC-1 [M] t", "== GC-1 title", "== GC-1 [Q] title", "nonsense", "a", "a>", "ab> x", "A> x", "a? x", "?", `a>> \q`, `a>> \xZZ`, `a>> \`,
		"a>> {x*y}", "a>> {bogus}", "a>> {", "a>> <>", "a>> <x", "a>> {9999999999*x}", "a>> {3*{n}}", "a> REQ x", "a> BOGUS", "a> TEXT x",
		"a<[x] NOOP", "a! dances", "! dances", "+ x", "+ 0s", "= key", "a<set {", "a| {near x}",
	} {
		if _, err := parse(Gearman, "f.txt", bad); err == nil || !strings.Contains(err.Error(), "f.txt:") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestTextIsCompiled(t *testing.T) {
	for line, want := range map[string]string{
		`a>> a\0\n\r\t\x41\\\{\<`:        "a\x00\n\r\tA\\{<",
		`a>> {3*ab}c{0*d}{2*\0}`:         "abababc\x00\x00",
		`a>> a{50*b}\x20`:                "a" + strings.Repeat("b", 50) + " ",
		`a> CAN_DO f`:                    "\x00REQ\x00\x00\x00\x01\x00\x00\x00\x01f",
		`a> NOOP`:                        "\x00REQ\x00\x00\x00\x06\x00\x00\x00\x00",
		`a> RES 0x8000002a {2*u}\0`:      "\x00RES\x80\x00\x00\x2a\x00\x00\x00\x03uu\x00",
		`a> STATUS_RES_UNIQUE {version}`: "\x00REQ\x00\x00\x00\x2a\x00\x00\x00\x032.0",
	} {
		s, err := parseStep(Gearman, line)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		tokens, _ := Gearman.pattern(s)
		v := values{vars: map[string]string{"version": "2.0"}}
		got, err := v.expand(tokens)
		if err != nil || string(got) != want {
			t.Errorf("%s is %q, %v, want %q", line, got, err, want)
		}
		if s.Kind == kindSendRaw && strings.Contains(line, "{50*") && escape(got) != s.Text {
			t.Errorf("%s is written as %s", line, escape(got))
		}
		if again, err := compile(escape([]byte(want))); err != nil || len(again) != 1 || again[0].text != want {
			t.Errorf("%q is not escaped: %s", want, escape([]byte(want)))
		}
	}
}

func TestRepliesAreCut(t *testing.T) {
	for reply, want := range map[string]int{"": 0, "OK": 0, "WATCHING 1\r\nx": 12, "OK 3\r\nabc\r\nx": 11, "FOUND 1 3\r\nabc\r": 0, "OK x\r\nabc": 6} {
		if got := cutReply([]byte(reply)); got != want {
			t.Errorf("the first reply of %q has %d bytes, want %d", reply, got, want)
		}
	}
}

// Each observation of gearmand that has a number has a conversation.
func TestConversationsAreThere(t *testing.T) {
	count := map[string]int{}
	for _, p := range []*Protocol{Beanstalk, Gearman} {
		all, err := All(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range all {
			group, _, _ := strings.Cut(c.Name, "-")
			if p == Beanstalk {
				group = p.Name
			} else {
				count[c.Tag]++
			}
			count[group]++
			if len(c.Steps) == 0 {
				t.Errorf("%s has no step", c.Name)
			}
		}
	}
	for what, least := range map[string]int{"beanstalk": 45, "GC": 93, "PE": 13, "M": 60, "V": 4, "I": 30, "X": 5} {
		if count[what] < least {
			t.Errorf("%d conversations %s, want at least %d", count[what], what, least)
		}
	}
}
