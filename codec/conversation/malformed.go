package conversation

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
)

// A malformedLine is input that is, or looks, wrong in one place.
type malformedLine struct {
	text     string
	needs113 bool // older references reply differently
	// swallows marks a valid put line with a body longer than what follows: no reply
	// comes, and the connection cannot be used any more.
	swallows bool
}

// A form is a command with valid arguments.
type form struct {
	word string
	args []string // numbers, and the tube t
	body string   // sent after the line
}

// forms are all commands. Delays and times to run are longer than the lines are played.
func forms() (all []form) {
	for text := range strings.SplitSeq(`put 0 900 900 3,use t,reserve,reserve-with-timeout 0,reserve-job 1,delete 1,release 1 0 900,bury 1 0,touch 1,
		watch t,ignore t,peek 1,peek-ready,peek-delayed,peek-buried,kick 1,kick-job 1,stats-job 1,stats-tube t,
		list-tubes,list-tube-used,list-tubes-watched,pause-tube t 900,quit`, ",") {
		words := strings.Fields(text)
		f := form{word: words[0], args: words[1:]}
		if f.word == "put" {
			f.body = "abc\r\n"
		}
		all = append(all, f)
	}
	return all
}

// malformedLines generates every command with every mutation of every
// argument and of the line as a whole.
func malformedLines() []malformedLine {
	var all []malformedLine
	add := func(f form, line string) {
		// A valid reserve would wait for ever.
		if line == "reserve\r\n" {
			return
		}
		all = append(all, malformedLine{text: line + f.body, needs113: f.word == "reserve-with-timeout"})
	}
	for _, f := range forms() {
		for i, arg := range f.args {
			for _, value := range f.mutations(arg) {
				args := slices.Clone(f.args)
				args[i] = value
				add(f, f.line(args)+"\r\n")
				if f.word == "put" && i == 3 && (value == "2147483647" || value == "2147483648" || value == "4294967295") {
					all[len(all)-1].swallows = true
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

// mutations returns invalid variants of one argument.
func (f form) mutations(d string) []string {
	if d == "t" {
		return []string{
			"", "-", "-a", "a-", "a b", "a\tb", " a", "a ", "a,b", "a:b", `a"b`, "a'b", "a\\b", "a_b", "a$b", "a(b)", "a;b", "a.b", "a/b", "a+b",
			"a!b", "a#b", "a%b", "a&b", "a*b", "a=b", "a?b", "a@b", "a[b", "a{b", "a|b", "a~b", "a^b", "a`b", "é", "\xff", "a\x00", "\x00", "a\x7f", "1", "0",
			strings.Repeat("n", 199), strings.Repeat("n", 200), strings.Repeat("n", 201), strings.Repeat("n", 210),
			"-" + strings.Repeat("n", 199), strings.Repeat("n", 199) + "!",
		}
	}
	all := []string{
		"", "x", "-" + d, "+" + d, d + "x", "x" + d, " " + d, "  " + d, "\t" + d, "\v" + d, d + " ", d + "\t", d + " x", d + "-",
		"0" + d, "00000000000000000000000000000" + d, d + ".5", d + "e3", "0x" + d, d + "\x00", "\x00" + d, d + "\n", "\n" + d, d + "\r", "--" + d, "- " + d, "'" + d + "'", "１",
		"4294967296", "9223372036854775807", "9223372036854775808", "18446744073709551615", "18446744073709551616",
		"18446744073709551617", "99999999999999999999999999999999999999", "-9223372036854775808", "-18446744073709551615", "-18446744073709551616",
	}
	if f.word != "reserve-with-timeout" { // it would wait
		all = append(all, "2147483647")
	}
	return append(all, "2147483648", "4294967295")
}

// lineMutations returns invalid variants of the whole line.
func (f form) lineMutations() []string {
	good := f.line(f.args)
	return []string{
		good + " \r\n", good + " x\r\n", good + "x\r\n", good + "\t\r\n", good + "\x00\r\n", "\x00" + good + "\r\n",
		" " + good + "\r\n", "\t" + good + "\r\n", good + "\n", good + "\n\r\n", good + "\r\r\n", good + "\r \r\n",
		good[:len(good)/2] + "\r" + good[len(good)/2:] + "\r\n", good[:len(good)/2] + "\n" + good[len(good)/2:] + "\r\n",
		strings.ToUpper(good) + "\r\n", strings.ToUpper(good[:1]) + good[1:] + "\r\n",
		f.word + "\r\n", f.word + " \r\n", f.word + "x\r\n", f.word + "-\r\n", f.word[:len(f.word)-1] + "\r\n",
		strings.Replace(good, " ", "  ", 1) + "\r\n", strings.Replace(good, " ", "\t", 1) + "\r\n", strings.Replace(good, " ", "", 1) + "\r\n",
		strings.ReplaceAll(good, "-", "_") + "\r\n", strings.ReplaceAll(good, "-", " ") + "\r\n",
		good + strings.Repeat(" ", 222-len(good)) + "\r\n", good + strings.Repeat(" ", 223-len(good)) + "\r\n",
	}
}

// CompareMalformed plays every line against both servers, with marker commands behind it
// that tell where the replies to it end, and reports each line with different replies. It
// leaves out lines that the reference's version answers otherwise.
func CompareMalformed(reference, subject, version string) (played int, differences []string, err error) {
	g := &game{c: &Campaign{Protocol: Beanstalk}, h: history{Conns: 1}, max: answerMax}
	defer g.hangUp()
	if err := errors.Join(g.join(0, reference), g.join(1, subject)); err != nil {
		return 0, nil, err
	}
	r := &beanstalkReferee{game: g, k: beanstalkState{unquoted: isUnquoted(version)}}
	for i, line := range malformedLines() {
		if line.needs113 && r.k.unquoted {
			continue
		}
		if g.sides[0].conns[0] == nil {
			if err := g.open(0); err != nil {
				return played, differences, err
			}
		}
		var got [2]string
		closed := false
		for n := range got {
			var ended bool
			if got[n], ended, err = marked(g.sides[n].conns[0], line, i); err != nil {
				return played, differences, fmt.Errorf("%s, %q: %w, after %q", sideName(n), clip(line.text), err, got[n])
			}
			closed = closed || ended
		}
		played++
		if !r.sameReplies(got[0], got[1]) {
			differences = append(differences, fmt.Sprintf("%q\n\treference %q\n\tours      %q", clip(line.text), clip(got[0]), clip(got[1])))
		}
		if closed {
			_ = g.act(0, "close") // the server has closed it
		}
	}
	return played, differences, nil
}

// marked sends a line, and returns what comes up to the reply of the last marker, or to the
// end. Behind a line that swallows it shuts down the sending side: the server must close.
func marked(c *stream, line malformedLine, i int) (got string, ended bool, err error) {
	// The long line brings back a server that looks for the end of a line it must not
	// find; its windows can hide the first marker after it, not both.
	text := line.text + fmt.Sprintf("use m%d\r\n%s\r\nuse n%d\r\nuse end%d\r\n", i, strings.Repeat("x", 448), i, i)
	if line.swallows {
		text = line.text
	}
	err = c.send([]byte(text))
	if line.swallows && err == nil {
		err = c.act("halfclose")
	}
	if err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		return "", false, err
	}
	end := fmt.Sprintf("USING end%d\r\n", i)
	if !c.await(answerMax, func(b []byte, ended bool) bool { return ended || strings.HasSuffix(string(b), end) }) {
		err = errors.New("no reply")
	} else {
		err = nil
	}
	b, ended := c.take(-1)
	if got = string(b); ended {
		got += "(closed)"
	}
	return got, ended, err
}

// sameReplies compares a series of replies.
func (r *beanstalkReferee) sameReplies(a, b string) bool {
	for a != b && a != "" && b != "" {
		n, m := cutReply([]byte(a)), cutReply([]byte(b))
		if n == 0 || m == 0 || r.differ(a[:n], b[:m], true) != "" {
			return false
		}
		a, b = a[n:], b[m:]
	}
	return a == b
}
