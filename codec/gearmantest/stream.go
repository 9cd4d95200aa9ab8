package gearmantest

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
)

// A message is a packet that a server sent, or a line of text.
type message struct {
	kind uint32 // zero: text
	body string // of text, with its end
}

// cutMessage takes the message at the front of b, n == 0 if it is not all there.
func cutMessage(b []byte) (m message, n int) {
	if len(b) == 0 {
		return m, 0
	}
	if b[0] != 0 {
		n = bytes.IndexByte(b, '\n') + 1
		return message{body: string(b[:n])}, n
	}
	if len(b) < 12 {
		return m, 0
	}
	n = 12 + int(binary.BigEndian.Uint32(b[8:]))
	if len(b) < n {
		return m, 0
	}
	return message{binary.BigEndian.Uint32(b[4:]), string(b[12:n])}, n
}

// packet makes a request.
func packet(kind uint32, args ...string) string {
	body := strings.Join(args, "\x00")
	b := binary.BigEndian.AppendUint32([]byte("\x00REQ"), kind)
	b = binary.BigEndian.AppendUint32(b, uint32(len(body)))
	return string(b) + body
}

// relayed tells the messages about a job that a worker caused.
func (m message) relayed() bool {
	switch m.kind {
	case packetTypes["WORK_DATA"], packetTypes["WORK_WARNING"], packetTypes["WORK_STATUS"],
		packetTypes["WORK_COMPLETE"], packetTypes["WORK_FAIL"], packetTypes["WORK_EXCEPTION"]:
		return true
	}
	return false
}

// unasked tells the messages that do not answer a request.
func (m message) unasked() bool { return m.relayed() || m.kind == packetTypes["NOOP"] }

// arg is the first argument.
func (m message) arg() string {
	first, _, _ := strings.Cut(m.body, "\x00")
	return first
}

func (m message) String() string {
	if m.kind == 0 {
		return describe([]byte(m.body))
	}
	return describe([]byte("\x00RES" + packet(m.kind, m.body)[4:]))
}

// split sorts messages by what they are. Between answers others may come anywhere,
// and a NOOP and a report may come either way round.
func split(all []message) (answers, noops, relays []message) {
	for _, m := range all {
		switch {
		case m.relayed():
			relays = append(relays, m)
		case m.unasked():
			noops = append(noops, m)
		default:
			answers = append(answers, m)
		}
	}
	return answers, noops, relays
}

func sortMessages(all []message) []message {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b message) int {
		if a.kind != b.kind {
			return int(a.kind) - int(b.kind)
		}
		return strings.Compare(a.body, b.body)
	})
	return all
}

// show is messages for people.
func show(all []message) string {
	if len(all) == 0 {
		return "nothing"
	}
	var parts []string
	for _, m := range all {
		if !isMark(m) {
			parts = append(parts, m.String())
		}
	}
	return strings.Join(parts, ", then ")
}

// Marks are echoes that the player puts behind each request, to know which
// messages answer it and when the answer is complete.
const markPrefix = "mark "

func isMark(m message) bool {
	return m.kind == packetTypes["ECHO_RES"] && strings.HasPrefix(m.body, markPrefix)
}

// The lists that an administrator may ask for.
var lists = [...]string{"workers", "status", "prioritystatus", "show jobs", "show unique jobs"}

// normalList makes lines comparable: their order is free; of workers
// the descriptor is, and the order of functions, which gearmand's --round-robin
// changes at each grab.
func normalList(which string, lines []string) []string {
	lines = slices.Clone(lines)
	if which == "workers" {
		for i, line := range lines {
			if _, rest, ok := strings.Cut(line, " "); ok {
				who, functions, _ := strings.Cut(strings.TrimSuffix(rest, "\n"), " :")
				words := strings.Split(functions, " ")
				slices.Sort(words)
				lines[i] = who + " :" + strings.Join(words, " ")
			}
		}
	}
	slices.Sort(lines)
	return lines
}
