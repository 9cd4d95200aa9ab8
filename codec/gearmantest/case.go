// Package gearmantest plays conversations with a server that speaks Gearman and
// says where its answers are not those that are written down. It is a test
// library: it knows the protocol only from the outside, as bytes.
//
// testdata holds the cases. Each begins with its name, a tag and what it is
// about, and goes on with one step a line, indented; it is given a server of its
// own, whose handles begin with H:lap.
//
//	GC-005 [M] a packet that arrives byte by byte is one packet
//	  opts: --job-retries 1    more of the server's command line
//	  store                    the server keeps jobs on disk
//	  C> SUBMIT_JOB "f\0u\0x"  send on connection C
//	  C>> "status\n"           the same, each byte for itself
//	  C>| "status\n"           the same, then shut down the sending side
//	  C< JOB_CREATED "H:lap:1" exactly these bytes come next
//	  C<[700] NOOP             the same, but not in the case's first 700 ms
//	  C<set "f\nbg\n.\n"       the same lines, in any order
//	  C<~ [0-9]+\n             all that comes matches this expression
//	  C? "status\n" => ".\n"   ask until this is the answer
//	  C-                       nothing comes, and C stays open
//	  C!                       the server closes C without another byte
//	  C open                   also: close, rst, halfclose
//	  sleep 50                 milliseconds
//	  signal SIGTERM           to the server
//	  server alive             it answers on a new connection
//	  server exits 0           it ends with that status
//	  server kill, server start    lose the process, and start it with the same disk
//
// The tags say what the case owes to gearmand: M is observed there, V only since
// 2.0.0, I is where gearmand loses work, hangs or dies and polystalk must not, X is
// what gearmand refuses.
//
// Bytes are packets, by name ("REQ n" and "RES n" for types without one and for
// the wrong direction; named packets are requests when sent), strings with the
// escapes \0 \n \r \t \xHH \" \\ and {now+3} for the Unix time in 3 seconds, "x"*100
// for repetition, and hex with any blanks and bars. A connection opens when it is
// first named. When a case ends, the server must be alive and nothing unread.
//
// A Campaign plays random histories instead (history.go), on gearmand and on
// another server in lock-step, and compares all that either says (pair.go,
// step.go). What cannot be compared is passed over (known.go), normalised
// (ghost.go, step.go) or never sent (request.go). A comment with one of the tags above
// says so why the two servers are not compared there.
package gearmantest

import (
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed testdata/*.txt
var files embed.FS

// A Tag is the letter that says what a case owes to gearmand.
type Tag string

// The tags.
const (
	Match   Tag = "M"
	Version Tag = "V"
	Improve Tag = "I"
	Extend  Tag = "X"
)

// A Case is one conversation.
type Case struct {
	Name  string // GC-001
	Tag   Tag
	Title string
	Opts  []string // command line of the server, besides what every case gets
	Store bool     // the server keeps jobs on disk
	Steps []step
}

type kind int

const (
	send kind = iota
	sendBytewise
	sendLast
	expect
	expectSet
	expectMatch
	ask
	silence
	closed
	connection
	sleep
	signal
	server
)

// A step is one line of a case.
type step struct {
	where   string // file:line
	text    string // as it stands there
	kind    kind
	conn    string
	bytes   text   // what is sent or asked
	want    text   // what must come
	pattern string // expectMatch
	arg     string // connection, signal, server: what to do
	wait    time.Duration
}

// Cases returns all cases, in the order of their files.
func Cases() ([]*Case, error) {
	names, err := fs.Glob(files, "testdata/*.txt")
	if err != nil {
		return nil, err
	}
	var all []*Case
	for _, name := range names {
		content, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		cases, err := Parse(strings.TrimPrefix(name, "testdata/"), string(content))
		if err != nil {
			return nil, err
		}
		all = append(all, cases...)
	}
	seen := map[string]bool{}
	for _, c := range all {
		if seen[c.Name] {
			return nil, fmt.Errorf("there are two cases %s", c.Name)
		}
		seen[c.Name] = true
	}
	return all, nil
}

var heading = regexp.MustCompile(`^([A-Z]+-[0-9]+[a-z]?) \[([MVIX])\] (.+)$`)

// Parse reads the cases of a file. The error names file and line.
func Parse(file, content string) ([]*Case, error) {
	var all []*Case
	for i, line := range strings.Split(content, "\n") {
		where := fmt.Sprintf("%s:%d", file, i+1)
		trimmed := strings.TrimSpace(line)
		if trimmed == "" || trimmed[0] == '#' {
			continue
		}
		if line[0] != ' ' {
			m := heading.FindStringSubmatch(line)
			if m == nil {
				return nil, fmt.Errorf("%s: not the beginning of a case: %s", where, line)
			}
			all = append(all, &Case{Name: m[1], Tag: Tag(m[2]), Title: m[3]})
			continue
		}
		if len(all) == 0 {
			return nil, fmt.Errorf("%s: a step before the first case", where)
		}
		c := all[len(all)-1]
		if opts, ok := strings.CutPrefix(trimmed, "opts: "); ok {
			c.Opts = append(c.Opts, strings.Fields(opts)...)
			continue
		}
		if trimmed == "store" {
			c.Store = true
			continue
		}
		s, err := parseStep(trimmed)
		if err != nil {
			return nil, fmt.Errorf("%s: %w: %s", where, err, trimmed)
		}
		s.where, s.text = where, trimmed
		c.Steps = append(c.Steps, s)
	}
	return all, nil
}

var (
	onConn  = regexp.MustCompile(`^([A-Z])(>>|>\||>|<set|<~|<\[[0-9]+\]|<|\?|-|!)(?: (.*))?$`)
	actions = []string{"open", "close", "rst", "halfclose"}
	verbs   = []string{"alive", "exits 0", "kill", "start"}
)

func parseStep(line string) (s step, err error) {
	if m := onConn.FindStringSubmatch(line); m != nil {
		return parseConnStep(m[1], m[2], m[3])
	}
	word, rest, _ := strings.Cut(line, " ")
	switch {
	case word == "sleep":
		ms, err := strconv.Atoi(rest)
		return step{kind: sleep, wait: time.Duration(ms) * time.Millisecond}, err
	case word == "signal":
		return step{kind: signal, arg: rest}, nil
	case word == "server" && slices.Contains(verbs, rest):
		return step{kind: server, arg: rest}, nil
	case len(word) == 1 && word >= "A" && word <= "Z" && slices.Contains(actions, rest):
		return step{kind: connection, conn: word, arg: rest}, nil
	}
	return step{}, fmt.Errorf("no such step")
}

func parseConnStep(conn, mark, rest string) (s step, err error) {
	s = step{conn: conn}
	switch mark {
	case ">", ">>", ">|":
		s.kind = map[string]kind{">": send, ">>": sendBytewise, ">|": sendLast}[mark]
		s.bytes, err = parseText(rest, "REQ")
	case "<set":
		s.kind = expectSet
		s.want, err = parseText(rest, "RES")
	case "<~":
		s.kind, s.pattern = expectMatch, rest
		_, err = regexp.Compile(rest)
	case "?":
		question, answer, ok := strings.Cut(rest, " => ")
		if !ok {
			return s, fmt.Errorf("no => and answer")
		}
		s.kind = ask
		if s.bytes, err = parseText(question, "REQ"); err == nil {
			s.want, err = parseText(answer, "RES")
		}
	case "-", "!":
		if s.kind = silence; mark == "!" {
			s.kind = closed
		}
		if rest != "" {
			err = fmt.Errorf("something behind the %s", mark)
		}
	default:
		if len(mark) > 1 {
			ms, err := strconv.Atoi(mark[2 : len(mark)-1])
			if err != nil {
				return s, err
			}
			s.wait = time.Duration(ms) * time.Millisecond
		}
		s.kind = expect
		s.want, err = parseText(rest, "RES")
	}
	return s, err
}
