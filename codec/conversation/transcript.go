// Package conversation plays conversations with a beanstalkd-speaking server and
// compares what it says with what is written down, or with what another
// server says. It is a test library: it knows the protocol only from the
// outside, as bytes, and imports nothing of this module.
//
// A transcript is a text file, one step a line:
//
//	a> put 0 0 10 5          send on connection a, CRLF added
//	a>> hel                  send as it stands, nothing added
//	a< INSERTED 1            one line must arrive, ended by CRLF
//	a< OK {size}             the head of a YAML reply
//	a| id: 1                 a line of a YAML reply's body, ended by LF
//	a< (nothing)             no byte arrives
//	a< EOF                   the server closes, having said nothing more
//	a! halfclose             shut down the sending side
//	a! close                 close
//	+ 1500ms                 time passes
//	= current-waiting 2      wait until stats says so
//	! drain                  put the server into drain mode
//	?                        replies belong here (-rewrite fills them in)
//
// Connections are single letters and open when first named. Text has the
// escapes \r \n \t \0 \\ \xNN \{ \< and the repeat {300*x}. In what must
// arrive, {n} is any decimal number, {any} any text, {near 9} a number at most
// one away (servers round seconds down, at slightly different moments), {size} the
// length of the YAML lines below it, and <name> a job id: the first one seen under
// that name, wherever it is used afterwards, also in what is sent.
//
// Comments begin with #. Some are directives for the whole file:
//
//	# sim-only               needs more time than a real server is given
//	# needs-1.13             older references answer otherwise
//	# ours-only              a difference from the reference made on purpose
//	# flags: -z 100          command line of the server
package conversation

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"
)

//go:embed testdata/*.txt
var files embed.FS

// A Kind says what a Step does.
type Kind int

const (
	KindComment Kind = iota
	KindSend
	KindSendRaw
	KindExpect
	KindBody
	KindNothing
	KindEOF
	KindHalfClose
	KindClose
	KindAdvance
	KindAwait
	KindDrain
	KindFill
)

// A Step is one line of a transcript. Text keeps its escapes.
type Step struct {
	Line  int // line number in the file, from 1
	Kind  Kind
	Conn  string        // connection letter, "" where none is meant
	Text  string        // what is sent or must arrive; the whole line of a comment
	Wait  time.Duration // KindAdvance
	Key   string        // KindAwait: a key of stats
	Value uint64        // KindAwait
}

// A Transcript is one parsed conversation file.
type Transcript struct {
	Name     string // file name without directory and ending
	SimOnly  bool
	Needs113 bool
	OursOnly bool
	Flags    []string // command line of the server
	Steps    []Step
}

// Transcripts returns all conversation files of this package, by name.
func Transcripts() ([]*Transcript, error) {
	names, err := fs.Glob(files, "testdata/*.txt")
	if err != nil {
		return nil, err
	}
	var all []*Transcript
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		t, err := Parse(strings.TrimSuffix(path.Base(name), ".txt"), string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// Parse reads a conversation file. The error names file and line.
func Parse(name, text string) (*Transcript, error) {
	t := &Transcript{Name: name}
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		s, err := parseStep(line)
		if err == nil {
			err = t.directive(s)
		}
		if err != nil {
			return nil, fmt.Errorf("%s.txt:%d: %w", name, i+1, err)
		}
		s.Line = i + 1
		t.Steps = append(t.Steps, s)
	}
	return t, nil
}

func (t *Transcript) directive(s Step) error {
	if s.Kind != KindComment || !strings.HasPrefix(s.Text, "# ") {
		return nil
	}
	switch text := s.Text[2:]; {
	case text == "sim-only":
		t.SimOnly = true
	case text == "needs-1.13":
		t.Needs113 = true
	case text == "ours-only":
		t.OursOnly = true
	case strings.HasPrefix(text, "flags: "):
		t.Flags = strings.Fields(text[len("flags: "):])
	}
	return nil
}

func parseStep(line string) (Step, error) {
	switch {
	case strings.TrimSpace(line) == "" || line[0] == '#':
		return Step{Kind: KindComment, Text: line}, nil
	case line == "?":
		return Step{Kind: KindFill}, nil
	case line == "! drain":
		return Step{Kind: KindDrain}, nil
	case strings.HasPrefix(line, "+ "):
		d, err := time.ParseDuration(line[2:])
		if err == nil && d <= 0 {
			err = fmt.Errorf("time %v does not pass", d)
		}
		return Step{Kind: KindAdvance, Wait: d}, err
	case strings.HasPrefix(line, "= "):
		key, value, _ := strings.Cut(line[2:], " ")
		n, err := strconv.ParseUint(value, 10, 64)
		return Step{Kind: KindAwait, Key: key, Value: n}, err
	}
	if len(line) < 3 || line[0] < 'a' || line[0] > 'z' {
		return Step{}, fmt.Errorf("no such step: %q", line)
	}
	s := Step{Conn: line[:1]}
	mark, text, _ := strings.Cut(line[1:], " ")
	s.Text = text
	switch mark {
	case ">":
		s.Kind = KindSend
	case ">>":
		s.Kind = KindSendRaw
	case "|":
		s.Kind = KindBody
	case "<":
		s.Kind = KindExpect
		switch text {
		case "(nothing)":
			s.Kind = KindNothing
		case "EOF":
			s.Kind = KindEOF
		}
	case "!":
		switch text {
		case "close":
			s.Kind = KindClose
		case "halfclose":
			s.Kind = KindHalfClose
		default:
			return Step{}, fmt.Errorf("no such action on a connection: %q", text)
		}
	default:
		return Step{}, fmt.Errorf("no such step: %q", line)
	}
	if s.Kind == KindSend || s.Kind == KindSendRaw || s.Kind == KindExpect || s.Kind == KindBody {
		if _, err := compile(s.Text); err != nil {
			return Step{}, err
		}
	}
	return s, nil
}

// String renders the step as it stands in a file.
func (s Step) String() string {
	mark := ""
	switch s.Kind {
	case KindComment:
		return s.Text
	case KindFill:
		return "?"
	case KindDrain:
		return "! drain"
	case KindAdvance:
		return "+ " + s.Wait.String()
	case KindAwait:
		return "= " + s.Key + " " + strconv.FormatUint(s.Value, 10)
	case KindNothing:
		return s.Conn + "< (nothing)"
	case KindEOF:
		return s.Conn + "< EOF"
	case KindHalfClose:
		return s.Conn + "! halfclose"
	case KindClose:
		return s.Conn + "! close"
	case KindSend:
		mark = "> "
	case KindSendRaw:
		mark = ">> "
	case KindExpect:
		mark = "< "
	case KindBody:
		mark = "| "
	}
	return s.Conn + mark + s.Text
}

// Sleeps reports whether the conversation lets time pass.
func (t *Transcript) Sleeps() bool {
	for _, s := range t.Steps {
		if s.Kind == KindAdvance {
			return true
		}
	}
	return false
}

// expects reports whether the step is about what arrives.
func (s Step) expects() bool {
	switch s.Kind {
	case KindExpect, KindBody, KindNothing, KindEOF, KindFill:
		return true
	}
	return false
}
