// Package conversation plays conversations with a server of either protocol. It is a test
// library: it knows the protocols only as bytes. A conversation can be played with three servers:
// the simulated server, our server over TCP, and the installed reference.
//
// testdata/beanstalk and testdata/gearman hold files of conversations. Each conversation
// begins with a heading; a file without headings is one conversation, named like the file:
//
//	== GC-005 [M] a packet that arrives byte by byte is one packet
//
// The tag relates the conversation to the reference. With M, the default, the reference replies
// the same; with V only newer releases do. With I the reference loses work, hangs or crashes, and
// our server must not. With X our server does what the reference refuses.
//
// One step is a line. Connections are single letters and open when first named:
//
//	a> put 0 0 10 5          send a message
//	a>> hel                  send exactly the text
//	a>. hel                  send exactly the text, each byte in a separate write
//	a< INSERTED 1            this message arrives next
//	a<[700] NOOP             it does, but not in the first 700 ms of the conversation
//	a<< .\n                  these bytes arrive next
//	a<set f\ng\n.\n          these lines arrive next, in any order
//	a| id: 1                 a line of the YAML body below a< OK {size}
//	a< (nothing)             no byte arrives
//	a< EOF                   the server closes, and sends nothing more
//	a! halfclose             shut down the sending side; also: open, close, rst
//	+ 1500ms                 time passes
//	= current-waiting: 2     wait until stats, or the list of that name, shows it
//	! drain                  act on the server: also alive, kill, start, exits, SIGTERM
//
// A message of beanstalkd's protocol is a line without its CRLF. A message of Gearman is a
// packet: its name, or REQ or RES and a number, and its body.
//
// Text has the escapes \r \n \t \0 \\ \xNN \{ \< and the repeat {300*x}. {version} is the
// server's version, {host} the address of the player and {now+3} the Unix time in 3 seconds. In an expectation {n} is any
// number, {near 9} a number at most one away (servers round seconds at different moments),
// {over 3} a higher number, {any} any text, {size} the length of the YAML lines below, and
// <name> a number that is the same wherever the name occurs, also in what is sent.
//
// Comments begin with #. Some are directives:
//
//	# sim-only               it takes too long for a real server
//	# tag: V                 the tag, where there is no heading
//	# store                  the server keeps jobs on disk
//	# flags: -z 100          flags for the server
//	# access: [identity.a]   a line of the server's access file; above the first heading: of all
//
// A Campaign plays random histories instead, on the reference and our server in lock-step,
// and compares the replies.
package conversation

import (
	"embed"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed testdata
var files embed.FS

// A stepKind is the kind of a step.
type stepKind int

// The kinds of steps.
const (
	kindComment stepKind = iota
	kindSend
	kindSendRaw
	kindSendSlowly
	kindExpect
	kindExpectRaw
	kindExpectSet
	kindBody
	kindNothing
	kindEOF
	kindAct
	kindAdvance
	kindAwait
	kindServer
)

// marks are the kinds that stand between a connection and a text.
var marks = map[string]stepKind{
	">": kindSend, ">>": kindSendRaw, ">.": kindSendSlowly, "<": kindExpect, "<<": kindExpectRaw,
	"<set": kindExpectSet, "|": kindBody, "!": kindAct,
}

var (
	actions = map[string]bool{"open": true, "halfclose": true, "close": true, "rst": true}
	verbs   = map[string]bool{"drain": true, "alive": true, "kill": true, "start": true, "exits": true, "SIGTERM": true}
)

// A step is one line of a conversation. Text keeps its escapes.
type step struct {
	Line int // line number in the file, from 1
	Kind stepKind
	Conn string        // connection letter; empty for a step without one
	Text string        // what is sent or must arrive, or the action; the whole line of a comment
	Wait time.Duration // kindAdvance: how long; kindExpect: the earliest time of arrival
	Key  string        // kindAwait: a key of stats, or a list
	Src  string        // the line itself
}

// A Conversation is a named list of steps.
type Conversation struct {
	Protocol    *Protocol
	Name, Title string
	Tag         string // M, V, I or X
	SimOnly     bool
	Store       bool     // the server keeps jobs on disk
	Flags       []string // flags for the server
	Access      string   // the access file; empty: none
	Steps       []step

	file string
}

// All returns all conversations of a protocol, by file.
func All(p *Protocol) ([]*Conversation, error) {
	dir := path.Join("testdata", p.Name)
	list, err := files.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []*Conversation
	seen := map[string]bool{}
	for _, f := range list {
		text, err := files.ReadFile(path.Join(dir, f.Name()))
		if err != nil {
			return nil, err
		}
		some, err := parse(p, f.Name(), string(text))
		if err != nil {
			return nil, err
		}
		for _, c := range some {
			if seen[c.Name] {
				return nil, fmt.Errorf("%s: there are two conversations %s", f.Name(), c.Name)
			}
			seen[c.Name] = true
		}
		all = append(all, some...)
	}
	return all, nil
}

var heading = regexp.MustCompile(`^== ([A-Z]+-[0-9]+[a-z]?) \[([MVIX])\] (.+)$`)

// parse reads a file of conversations. The error names file and line.
func parse(p *Protocol, file, text string) ([]*Conversation, error) {
	one := &Conversation{Protocol: p, Name: strings.TrimSuffix(file, ".txt"), Tag: "M", file: file}
	all := []*Conversation{one}
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		if m := heading.FindStringSubmatch(line); m != nil {
			one = &Conversation{Protocol: p, Name: m[1], Tag: m[2], Title: m[3], Access: all[0].Access, file: file}
			all = append(all, one)
			continue
		}
		s, err := parseStep(p, line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, i+1, err)
		}
		s.Line, s.Src = i+1, line
		one.direct(s)
		one.Steps = append(one.Steps, s)
	}
	if len(all) == 1 {
		return all, nil
	}
	for _, s := range all[0].Steps {
		if s.Kind != kindComment {
			return nil, fmt.Errorf("%s:%d: a step before the first heading", file, s.Line)
		}
	}
	return all[1:], nil
}

// direct applies a directive.
func (c *Conversation) direct(s step) {
	word, rest, _ := strings.Cut(s.Text, " ")
	if s.Kind != kindComment || word != "#" {
		return
	}
	switch word, rest, _ := strings.Cut(rest, " "); word {
	case "sim-only":
		c.SimOnly = true
	case "store":
		c.Store = true
	case "tag:":
		c.Tag = rest
	case "access:":
		c.Access += rest + "\n"
	case "flags:":
		c.Flags = append(c.Flags, strings.Fields(rest)...)
	}
}

var onConn = regexp.MustCompile(`^([a-z])(>>|>\.|>|<<|<set|<\[[0-9]+\]|<|\||!)(?: (.*))?$`)

func parseStep(p *Protocol, line string) (s step, err error) {
	word, rest, _ := strings.Cut(line, " ")
	switch {
	case strings.TrimSpace(line) == "" || line[0] == '#':
		return step{Kind: kindComment, Text: line}, nil
	case word == "!" && verbs[rest]:
		return step{Kind: kindServer, Text: rest}, nil
	case word == "+":
		d, err := time.ParseDuration(rest)
		if err == nil && d <= 0 {
			err = fmt.Errorf("time %v does not pass", d)
		}
		return step{Kind: kindAdvance, Wait: d}, err
	case word == "=":
		key, value, ok := strings.Cut(rest, ": ")
		if !ok {
			return s, fmt.Errorf("no value: %q", line)
		}
		_, err := compile(value)
		return step{Kind: kindAwait, Key: key, Text: value}, err
	}
	m := onConn.FindStringSubmatch(line)
	if m == nil {
		return s, fmt.Errorf("no such step: %q", line)
	}
	s = step{Conn: m[1], Kind: kindExpect, Text: m[3]}
	if ms, ok := strings.CutPrefix(m[2], "<["); ok {
		n, _ := strconv.Atoi(strings.TrimSuffix(ms, "]")) // digits
		s.Wait = time.Duration(n) * time.Millisecond
	} else {
		s.Kind = marks[m[2]]
	}
	switch {
	case s.Kind == kindAct && !actions[s.Text]:
		err = fmt.Errorf("no such action: %q", line)
	case s.Kind == kindExpect && s.Text == "(nothing)":
		s.Kind = kindNothing
	case s.Kind == kindExpect && s.Text == "EOF":
		s.Kind = kindEOF
	case s.Kind != kindAct:
		_, err = p.pattern(s)
	}
	return s, err
}

// expects reports whether the step is about what arrives.
func (s step) expects() bool { return s.Kind >= kindExpect && s.Kind <= kindEOF }

// Sleeps reports whether the conversation lets time pass.
func (c *Conversation) Sleeps() bool {
	return slices.ContainsFunc(c.Steps, func(s step) bool { return s.Kind == kindAdvance })
}

// NeedsProcess reports whether the conversation is about the process of the server.
func (c *Conversation) NeedsProcess() bool {
	return c.Store || slices.ContainsFunc(c.Steps, func(s step) bool {
		return s.Kind == kindServer && s.Text != "drain" && s.Text != "alive"
	})
}
