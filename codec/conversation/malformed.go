package conversation

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"
)

// A MalformedLine is input that is wrong, or looks so, in one place.
type MalformedLine struct {
	Bytes    []byte
	Needs113 bool // older references answer otherwise
	// Swallows marks a valid put line whose body is longer than anybody will
	// send: no reply comes, and the connection is of no further use.
	Swallows bool
}

// A form is a command with arguments that are all right.
type form struct {
	word string
	args []string
	kind []argKind
	body string // sent after the line
}

type argKind int

const (
	argNumber argKind = iota
	argTube
)

// Delays and times to run are long, so that nothing happens by itself while
// the lines are played.
var forms = []form{
	{"put", []string{"0", "900", "900", "3"}, []argKind{argNumber, argNumber, argNumber, argNumber}, "abc\r\n"},
	{"use", []string{"t"}, []argKind{argTube}, ""},
	{"reserve", nil, nil, ""},
	{"reserve-with-timeout", []string{"0"}, []argKind{argNumber}, ""},
	{"reserve-job", []string{"1"}, []argKind{argNumber}, ""},
	{"delete", []string{"1"}, []argKind{argNumber}, ""},
	{"release", []string{"1", "0", "900"}, []argKind{argNumber, argNumber, argNumber}, ""},
	{"bury", []string{"1", "0"}, []argKind{argNumber, argNumber}, ""},
	{"touch", []string{"1"}, []argKind{argNumber}, ""},
	{"watch", []string{"t"}, []argKind{argTube}, ""},
	{"ignore", []string{"t"}, []argKind{argTube}, ""},
	{"peek", []string{"1"}, []argKind{argNumber}, ""},
	{"peek-ready", nil, nil, ""},
	{"peek-delayed", nil, nil, ""},
	{"peek-buried", nil, nil, ""},
	{"kick", []string{"1"}, []argKind{argNumber}, ""},
	{"kick-job", []string{"1"}, []argKind{argNumber}, ""},
	{"stats-job", []string{"1"}, []argKind{argNumber}, ""},
	{"stats-tube", []string{"t"}, []argKind{argTube}, ""},
	{"list-tubes", nil, nil, ""},
	{"list-tube-used", nil, nil, ""},
	{"list-tubes-watched", nil, nil, ""},
	{"pause-tube", []string{"t", "900"}, []argKind{argTube, argNumber}, ""},
	{"quit", nil, nil, ""},
}

// MalformedLines generates every command with every mutation of every
// argument and of the line as a whole.
func MalformedLines() []MalformedLine {
	var all []MalformedLine
	add := func(f form, line string) {
		// A reserve that is right after all would wait for ever.
		if line == "reserve\r\n" {
			return
		}
		all = append(all, MalformedLine{
			Bytes:    []byte(line + f.body),
			Needs113: f.word == "reserve-with-timeout",
		})
	}
	for _, f := range forms {
		for i, kind := range f.kind {
			for _, value := range mutations(f, i, kind) {
				args := append([]string(nil), f.args...)
				args[i] = value
				add(f, f.line(args)+"\r\n")
				if f.word == "put" && i == 3 && (value == "2147483647" || value == "2147483648" || value == "4294967295") {
					all[len(all)-1].Swallows = true
				}
			}
			// Arguments end early.
			add(f, f.line(f.args[:i])+"\r\n")
			add(f, f.line(f.args[:i])+" \r\n")
		}
		for _, line := range f.lineMutations() {
			add(f, line)
		}
	}
	for b := range 256 {
		one := string([]byte{byte(b)})
		add(form{}, "use a"+one+"b\r\n")
		add(form{}, one+"\r\n")
		add(form{}, "peek 1"+one+"1\r\n")
	}
	for _, n := range []int{200, 221, 222, 223, 224, 225, 446, 447, 448, 449, 450, 670, 671, 672, 673, 1000, 10000} {
		for _, start := range []string{"", "use ", "peek ", "stats-tube ", "put 0 0 900 ", "pause-tube "} {
			for _, fill := range []string{"x", "1", " "} {
				add(form{}, start+strings.Repeat(fill, n-len(start))+"\r\n")
			}
		}
	}
	for _, line := range []string{"\r\n", "\r\r\n", "\n\r\n", "\r\n\r\n", "\n", "\r", "\x00", " \r\n"} {
		add(form{}, line)
	}
	return all
}

func (f form) line(args []string) string {
	return strings.Join(append([]string{f.word}, args...), " ")
}

func mutations(f form, i int, kind argKind) []string {
	if kind == argTube {
		return []string{
			"", "-", "-a", "a-", "a b", "a\tb", " a", "a ", "a,b", "a:b", `a"b`, "a'b", "a\\b", "a_b", "a$b", "a(b)", "a;b", "a.b", "a/b", "a+b",
			"a!b", "a#b", "a%b", "a&b", "a*b", "a=b", "a?b", "a@b", "a[b", "a{b", "a|b", "a~b", "a^b", "a`b", "é", "\xff", "a\x00", "\x00", "a\x7f", "1", "0",
			strings.Repeat("n", 199), strings.Repeat("n", 200), strings.Repeat("n", 201), strings.Repeat("n", 210),
			"-" + strings.Repeat("n", 199), strings.Repeat("n", 199) + "!",
		}
	}
	d := f.args[i]
	all := []string{
		"", "x", "-" + d, "+" + d, d + "x", "x" + d, " " + d, "  " + d, "\t" + d, "\v" + d, d + " ", d + "\t", d + " x", d + "-",
		"0" + d, "00000000000000000000000000000" + d, d + ".5", d + "e3", "0x" + d, d + "\x00", "\x00" + d, d + "\n", "\n" + d, d + "\r", "--" + d, "- " + d, "'" + d + "'", "１",
		"4294967296", "9223372036854775807", "9223372036854775808", "18446744073709551615", "18446744073709551616",
		"18446744073709551617", "99999999999999999999999999999999999999", "-9223372036854775808", "-18446744073709551615", "-18446744073709551616",
	}
	switch f.word {
	case "reserve-with-timeout":
		return append(all, "2147483648", "4294967295") // smaller ones would wait
	default:
		return append(all, "2147483647", "2147483648", "4294967295")
	}
}

// lineMutations spoils the line as a whole.
func (f form) lineMutations() []string {
	good := f.line(f.args)
	all := []string{
		good + " \r\n", good + " x\r\n", good + "x\r\n", good + "\t\r\n", good + "\x00\r\n", "\x00" + good + "\r\n",
		" " + good + "\r\n", "\t" + good + "\r\n", good + "\n", good + "\n\r\n", good + "\r\r\n", good + "\r \r\n",
		good[:len(good)/2] + "\r" + good[len(good)/2:] + "\r\n", good[:len(good)/2] + "\n" + good[len(good)/2:] + "\r\n",
		strings.ToUpper(good) + "\r\n", strings.ToUpper(good[:1]) + good[1:] + "\r\n",
		f.word + "\r\n", f.word + " \r\n", f.word + "x\r\n", f.word + "-\r\n", f.word[:len(f.word)-1] + "\r\n",
		strings.Replace(good, " ", "  ", 1) + "\r\n", strings.Replace(good, " ", "\t", 1) + "\r\n", strings.Replace(good, " ", "", 1) + "\r\n",
		strings.ReplaceAll(good, "-", "_") + "\r\n", strings.ReplaceAll(good, "-", " ") + "\r\n",
		good + strings.Repeat(" ", 222-len(good)) + "\r\n", good + strings.Repeat(" ", 223-len(good)) + "\r\n",
	}
	return all
}

// CompareMalformed plays every line against both servers, with marker commands
// behind it that tell where the replies to it end, and reports each line whose
// replies differ. unquoted says that the reference is older than 1.13: lines
// it answers otherwise are left out.
func CompareMalformed(reference, subject string, unquoted bool) (played int, differences []string, err error) {
	var conns [2]*Client
	defer func() {
		for _, c := range conns {
			if c != nil {
				c.Close()
			}
		}
	}()
	for i, line := range MalformedLines() {
		if line.Needs113 && unquoted {
			continue
		}
		var got [2][]byte
		for side, address := range []string{reference, subject} {
			if line.Swallows {
				got[side], err = swallowed(address, line.Bytes)
			} else {
				conns[side], got[side], err = marked(conns[side], address, line.Bytes, i)
			}
			if err != nil {
				return played, differences, fmt.Errorf("%s, line %d, %q: %w", address, i, clip(line.Bytes), err)
			}
		}
		played++
		if !sameReplies(got[0], got[1], unquoted) {
			differences = append(differences, fmt.Sprintf("%q\n\treference %q\n\tours      %q", clip(line.Bytes), clip(got[0]), clip(got[1])))
		}
		if (conns[0] == nil) != (conns[1] == nil) {
			for side := range conns {
				if conns[side] != nil {
					conns[side].Close()
					conns[side] = nil
				}
			}
		}
	}
	return played, differences, nil
}

// marked sends a line on a connection that is kept, or opened anew after the
// server closed it, and reads up to the reply of the last marker.
func marked(c *Client, address string, line []byte, i int) (*Client, []byte, error) {
	if c == nil {
		fresh, err := Dial("tcp", address)
		if err != nil {
			return nil, nil, err
		}
		c = fresh
	}
	// The long line brings back a server that looks for the end of a line it
	// must not find; its windows can hide the first marker after it, not both.
	var b bytes.Buffer
	b.Write(line)
	fmt.Fprintf(&b, "use m%d\r\n%s\r\nuse n%d\r\nuse end%d\r\n", i, strings.Repeat("x", 448), i, i)
	if err := c.Say(b.Bytes()); err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		return c, nil, err
	}
	end := fmt.Appendf(nil, "USING end%d\r\n", i)
	var got []byte
	for !bytes.HasSuffix(got, end) {
		more, closed, err := c.some()
		got = append(got, more...)
		if err != nil {
			return c, got, fmt.Errorf("%w after %q", err, clip(got))
		}
		if closed {
			c.Close()
			return nil, append(got, "(closed)"...), nil
		}
	}
	return c, got, nil
}

// swallowed sends a put without its body and shuts down: the server must
// close and say nothing.
func swallowed(address string, line []byte) ([]byte, error) {
	c, err := Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.Say(line); err != nil {
		return nil, err
	}
	if err := c.HalfClose(); err != nil {
		return nil, err
	}
	var got []byte
	for {
		more, closed, err := c.some()
		got = append(got, more...)
		if closed || err != nil {
			return got, err
		}
	}
}

// some reads what there is, at least one byte.
func (c *Client) some() (b []byte, closed bool, err error) {
	if err := c.SetReadDeadline(time.Now().Add(Patience)); err != nil {
		return nil, false, err
	}
	b = make([]byte, 4096)
	n, err := c.r.Read(b)
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		return b[:n], true, nil
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errors.New("no reply")
	}
	return b[:n], false, err
}

// sameReplies compares a series of replies; YAML bodies among them may differ
// in quotes and in what is volatile.
func sameReplies(a, b []byte, unquoted bool) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var diff string
	for len(a) > 0 && len(b) > 0 && diff == "" {
		var ra, rb []byte
		ra, a = cutReply(a)
		rb, b = cutReply(b)
		diff = compareReply(ra, rb, unquoted, asked{})
	}
	return diff == "" && len(a) == 0 && len(b) == 0
}

func clip(b []byte) []byte {
	if len(b) > 400 {
		return append(append([]byte(nil), b[:400]...), "…"...)
	}
	return b
}
