package gearman

import "bytes"

// A Verb is the command of a line of text.
type Verb uint8

// The commands. Packets and lines with a Fault have Unknown, the zero Verb. The two shutdown
// commands are not in gearmand since release 1.1.15.
const (
	Unknown Verb = iota
	Workers
	Status
	PriorityStatus
	ShowJobs
	ShowUniqueJobs
	MaxQueue
	CreateFunction
	DropFunction
	CancelJob
	Version
	Verbose
	GetPID
	Shutdown
	ShutdownGraceful
	Auth     // not of gearmand: it presents a token
	NumVerbs // how many Verbs there are, for arrays indexed by Verb
)

var verbWords = [NumVerbs]string{
	Unknown:          "unknown",
	Workers:          "workers",
	Status:           "status",
	PriorityStatus:   "prioritystatus",
	ShowJobs:         "show jobs",
	ShowUniqueJobs:   "show unique jobs",
	MaxQueue:         "maxqueue",
	CreateFunction:   "create function",
	DropFunction:     "drop function",
	CancelJob:        "cancel job",
	Version:          "version",
	Verbose:          "verbose",
	GetPID:           "getpid",
	Shutdown:         "shutdown",
	ShutdownGraceful: "shutdown graceful",
	Auth:             "auth",
}

// String returns the command of the protocol, or "unknown".
func (v Verb) String() string {
	if v >= NumVerbs {
		return verbWords[Unknown]
	}
	return verbWords[v]
}

// wordsMax is how many words a line may have.
const wordsMax = 5

// parseLine parses one line of text. All rules are as observed.
func parseLine(m *Message, b []byte) (n int, fault *Fault) {
	line, n, fault := readLine(m, b, MaxLine)
	if n == 0 || fault != nil {
		return n, fault
	}
	var words [wordsMax][]byte
	count, ok := splitWords(&words, line)
	m.Word = words[0]
	if !ok {
		return n, ErrTooManyWords
	}
	verb, fault := m.command(words[:count])
	if fault != nil {
		m.N = 0
		return n, fault
	}
	m.Verb = verb
	return n, nil
}

// readLine finds the line of at most limit bytes at the front of b. It ends with \n or \r\n.
func readLine(m *Message, b []byte, limit int) (line []byte, n int, fault *Fault) {
	m.Type, m.Verb, m.N, m.Size, m.Word = Text, Unknown, 0, 0, nil
	i := bytes.IndexByte(b[:min(len(b), limit)], '\n')
	if i < 0 {
		if len(b) >= limit {
			return nil, limit, ErrLineTooLong
		}
		return nil, 0, nil
	}
	line = b[:i:i]
	if i > 0 && line[i-1] == '\r' {
		line = line[: i-1 : i-1]
	}
	return line, i + 1, nil
}

// splitWords splits a line at its spaces; several spaces count as one, and a NUL ends its word
// early. A line that begins or ends with a space has an empty word there. Not ok: there are more
// words than fit.
func splitWords(words *[wordsMax][]byte, line []byte) (count int, ok bool) {
	for {
		if count == wordsMax {
			return count, false
		}
		i := bytes.IndexByte(line, ' ')
		if i < 0 {
			words[count] = untilNUL(line)
			return count + 1, true
		}
		words[count] = untilNUL(line[:i:i])
		count++
		for i < len(line) && line[i] == ' ' {
			i++
		}
		line = line[i:]
	}
}

// command finds the verb of a line and sets its arguments.
func (m *Message) command(words [][]byte) (Verb, *Fault) {
	word := words[0]
	for _, v := range [...]Verb{Workers, Status, PriorityStatus, Version, Verbose, GetPID} {
		if foldEqual(word, verbWords[v]) {
			return v, nil
		}
	}
	switch {
	case foldEqual(word, "maxqueue"):
		return m.maxQueue(words)
	case foldEqual(word, "create"):
		return m.function(CreateFunction, words)
	case foldEqual(word, "drop"):
		return m.function(DropFunction, words)
	case foldEqual(word, "show") && len(words) > 1:
		return show(words)
	case foldEqual(word, "cancel") && len(words) > 2:
		return m.cancel(words)
	case foldEqual(word, "shutdown"):
		return shutdown(words)
	case foldEqual(word, verbWords[Auth]):
		m.setArg(nil)
		if len(words) == 2 {
			m.setArg(words[1])
		}
		return Auth, nil
	}
	return Unknown, ErrUnknownCommand
}

// maxQueue reads one limit for all priorities, or one each for high, normal and low. A missing
// limit, or one below 1, is no limit.
func (m *Message) maxQueue(words [][]byte) (Verb, *Fault) {
	if len(words) < 2 {
		return Unknown, ErrIncomplete
	}
	m.setArg(words[1])
	m.Limits = [NumPriorities]uint32{}
	sizes := words[2:]
	for p := range m.Limits {
		if len(sizes) == 1 {
			m.Limits[p] = uint32(max(cInt(sizes[0]), 0))
		} else if p < len(sizes) {
			m.Limits[p] = uint32(max(cInt(sizes[p]), 0))
		}
	}
	return MaxQueue, nil
}

// function reads "create function F" and similar lines. An empty name can be dropped, as a
// worker may have registered it, but not created. (For a line that ends in a space, gearmand
// creates it or crashes.)
func (m *Message) function(verb Verb, words [][]byte) (Verb, *Fault) {
	if len(words) != 3 || !foldEqual(words[1], "function") || verb == CreateFunction && len(words[2]) == 0 {
		return Unknown, ErrIncomplete
	}
	m.setArg(words[2])
	return verb, nil
}

func show(words [][]byte) (Verb, *Fault) {
	switch {
	case len(words) == 2 && foldEqual(words[1], "jobs"):
		return ShowJobs, nil
	case len(words) == 3 && foldEqual(words[1], "unique") && foldEqual(words[2], "jobs"):
		return ShowUniqueJobs, nil
	}
	return Unknown, ErrShow
}

func (m *Message) cancel(words [][]byte) (Verb, *Fault) {
	if len(words) != 3 || !foldEqual(words[1], "job") {
		return Unknown, ErrCancel
	}
	m.setArg(words[2])
	return CancelJob, nil
}

func shutdown(words [][]byte) (Verb, *Fault) {
	switch {
	case len(words) == 1:
		return Shutdown, nil
	case len(words) == 2 && foldEqual(words[1], "graceful"):
		return ShutdownGraceful, nil
	}
	return Unknown, ErrIncomplete
}

func (m *Message) setArg(arg []byte) { m.Args[0], m.N = arg, 1 }

// foldEqual reports whether b is word, which has lower-case letters only, in any letter case.
func foldEqual(b []byte, word string) bool {
	if len(b) != len(word) {
		return false
	}
	for i, c := range b {
		if c|0x20 != word[i] { // sets the bit of lower-case letters
			return false
		}
	}
	return true
}

// FoldFunction returns a name with ASCII letters in lower case. drop function ignores letter case,
// as observed; all other commands compare bytes.
func FoldFunction(name string) string {
	for i := range len(name) {
		if lower(name[i]) != name[i] {
			b := []byte(name)
			for ; i < len(b); i++ {
				b[i] = lower(b[i])
			}
			return string(b)
		}
	}
	return name
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
