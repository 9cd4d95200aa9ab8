package conversation

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Protocol describes how a message looks, and how its real servers are asked.
type Protocol struct {
	Name string // the folder of its conversations

	frame func(text string, request bool) ([]token, error) // the pattern of a message
	cut   func(b []byte) int                               // length of the first reply in b; 0: it is not complete
	show  func(b []byte) (text string, n int)              // the first message as text, and its length

	// A server that answers hello with welcome, and then closes, is alive.
	// With an access file it may answer refusal.
	hello, welcome, refusal string
	// question asks for a key's value; answers reports whether a reply has it.
	question func(key string) string
	answers  func(reply []byte, key, value string) (complete, equal bool)

	silence time.Duration // a server that sends nothing for this time counts as silent
	pace    time.Duration // pause that keeps the order of what is sent on different connections
}

// Silence is how long a server of beanstalkd's protocol must send nothing to count as silent. If it
// is too short, a test may miss an unexpected reply, but never reports a wrong one.
const Silence = 40 * time.Millisecond

// The protocols.
var (
	Beanstalk = &Protocol{
		Name: "beanstalk",
		frame: func(text string, _ bool) ([]token, error) {
			tokens, err := compile(text)
			return append(tokens, token{text: "\r\n"}), err
		},
		cut:      cutReply,
		show:     showReply,
		hello:    "quit\r\n",
		question: func(string) string { return "stats\r\n" },
		answers: func(reply []byte, key, value string) (complete, equal bool) {
			return cutReply(reply) > 0, bytes.Contains(reply, []byte("\n"+key+": "+value+"\n"))
		},
		silence: Silence,
	}
	Gearman = &Protocol{
		Name:     "gearman",
		frame:    framePacket,
		cut:      cutPacket,
		show:     showPacket,
		hello:    packet(16, "alive"),
		welcome:  response(17, "alive"),
		refusal:  response(19, "NOT_PERMITTED", "This identity may not do that with the function"),
		question: func(key string) string { return key + "\n" },
		answers: func(reply []byte, _, value string) (complete, equal bool) {
			return cutList(reply) > 0, string(reply) == value
		},
		silence: 150 * time.Millisecond,
		pace:    30 * time.Millisecond,
	}
)

// pattern returns the tokens of what a step sends or expects; nil for other steps.
func (p *Protocol) pattern(s step) ([]token, error) {
	switch s.Kind {
	case kindSend, kindExpect:
		return p.frame(s.Text, s.Kind == kindSend)
	case kindSendRaw, kindSendSlowly, kindExpectRaw, kindExpectSet:
		return compile(s.Text)
	case kindBody:
		tokens, err := compile(s.Text)
		return append(tokens, token{text: "\n"}), err
	}
	return nil, nil
}

// describe returns bytes as a conversation writes them, long ones abbreviated.
func (p *Protocol) describe(b []byte) string {
	if len(b) == 0 {
		return "nothing"
	}
	var out []string
	for len(b) > 0 && len(out) < 6 {
		text, n := p.show(b)
		if n == 0 {
			text, n = escape(b), len(b)
		}
		out, b = append(out, clip(text)), b[n:]
	}
	if len(b) > 0 {
		out = append(out, fmt.Sprintf("%d bytes more", len(b)))
	}
	return strings.Join(out, ", then ")
}

// cutReply returns the length of beanstalkd's first reply: a line, and the body of
// RESERVED, FOUND and OK.
func cutReply(b []byte) int {
	end := bytes.Index(b, []byte("\r\n"))
	if end < 0 {
		return 0
	}
	n := end + 2
	word, _, _ := bytes.Cut(b[:end], []byte(" "))
	switch string(word) {
	case "RESERVED", "FOUND", "OK":
		size, err := strconv.Atoi(string(b[bytes.LastIndexByte(b[:end], ' ')+1 : end]))
		if err == nil && size >= 0 {
			n += size + 2
		}
	}
	if n > len(b) {
		return 0
	}
	return n
}

func showReply(b []byte) (text string, n int) {
	n = cutReply(b)
	return escape(bytes.TrimSuffix(b[:n], []byte("\r\n"))), n
}

// volatile names the keys of stats that differ between servers and between moments.
var volatile = map[string]bool{
	"pid": true, "version": true, "rusage-utime": true, "rusage-stime": true, "uptime": true,
	"hostname": true, "os": true, "platform": true,
}

// timely names the keys that count seconds: two correct servers may be one apart.
var timely = map[string]bool{"age": true, "time-left": true, "pause-time-left": true}

// onDisk reports whether a server with a journal reports other values of the key.
func onDisk(key string) bool { return key == "file" || strings.HasPrefix(key, "binlog-") }

// isVolatile reports whether the value of a key must not be compared. The id of stats is
// the server's own; the id of stats-job is the job's.
func isVolatile(key string, stats bool) bool { return volatile[key] || key == "id" && stats }

// isStats distinguishes the body of stats from the bodies of stats-job and stats-tube.
func isStats(body []byte) bool { return bytes.Contains(body, []byte("\nrusage-utime: ")) }

// unquote removes the double quotes that 1.13 writes around YAML strings and older
// references do not.
func unquote(line string) string {
	key, value, ok := strings.Cut(line, `: "`)
	if !ok || !strings.HasSuffix(value, `"`) {
		return line
	}
	return key + ": " + strings.TrimSuffix(value, `"`)
}

// isUnquoted reports whether a reference of that version is older than 1.13.
func isUnquoted(version string) bool {
	_, minor, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(minor[:countDigits([]byte(minor))])
	return err == nil && n < 13
}

// packets are Gearman's packet types. They stand here a second time, so that a wrong
// number in the codec is found.
var packets = strings.Fields(`TEXT CAN_DO CANT_DO RESET_ABILITIES PRE_SLEEP UNUSED NOOP SUBMIT_JOB JOB_CREATED GRAB_JOB NO_JOB JOB_ASSIGN
	WORK_STATUS WORK_COMPLETE WORK_FAIL GET_STATUS ECHO_REQ ECHO_RES SUBMIT_JOB_BG ERROR STATUS_RES SUBMIT_JOB_HIGH SET_CLIENT_ID
	CAN_DO_TIMEOUT ALL_YOURS WORK_EXCEPTION OPTION_REQ OPTION_RES WORK_DATA WORK_WARNING GRAB_JOB_UNIQ JOB_ASSIGN_UNIQ SUBMIT_JOB_HIGH_BG
	SUBMIT_JOB_LOW SUBMIT_JOB_LOW_BG SUBMIT_JOB_SCHED SUBMIT_JOB_EPOCH SUBMIT_REDUCE_JOB SUBMIT_REDUCE_JOB_BACKGROUND GRAB_JOB_ALL
	JOB_ASSIGN_ALL GET_STATUS_UNIQUE STATUS_RES_UNIQUE`)

// packetTypes are the numbers of packets.
var packetTypes = func() map[string]uint32 {
	types := map[string]uint32{}
	for i, name := range packets {
		types[name] = uint32(i)
	}
	return types
}()

// headerSize is the length of a packet's magic, type and size.
const headerSize = 12

func framePacket(text string, request bool) ([]token, error) {
	word, rest, _ := strings.Cut(text, " ")
	magic := "RES"
	if request {
		magic = "REQ"
	}
	kind, ok := packetTypes[word]
	if word == "REQ" || word == "RES" {
		number, body, _ := strings.Cut(rest, " ")
		n, err := strconv.ParseUint(number, 0, 32)
		if err != nil {
			return nil, err
		}
		magic, kind, rest = word, uint32(n), body
	} else if !ok || kind == 0 {
		return nil, fmt.Errorf("no such packet: %q", text)
	}
	tokens, err := compile(rest)
	head := binary.BigEndian.AppendUint32([]byte("\x00"+magic), kind)
	return append([]token{{kind: tokenHeader, text: string(head)}}, tokens...), err
}

// packet returns a request.
func packet(kind uint32, args ...string) string {
	body := strings.Join(args, "\x00")
	b := binary.BigEndian.AppendUint32([]byte("\x00REQ"), kind)
	return string(binary.BigEndian.AppendUint32(b, uint32(len(body)))) + body
}

// response returns a packet of a server.
func response(kind uint32, args ...string) string {
	return "\x00RES" + packet(kind, args...)[4:]
}

// cutPacket returns the length of the packet or the line at the front of b.
func cutPacket(b []byte) int {
	if len(b) == 0 || b[0] != 0 {
		return bytes.IndexByte(b, '\n') + 1
	}
	if len(b) < headerSize {
		return 0
	}
	n := headerSize + int(binary.BigEndian.Uint32(b[8:]))
	if len(b) < n {
		return 0
	}
	return n
}

// cutList returns the length of the list at the front of b, with its final dot.
func cutList(b []byte) int {
	const end = ".\n"
	if bytes.HasPrefix(b, []byte(end)) {
		return len(end)
	}
	if i := bytes.Index(b, []byte("\n"+end)); i >= 0 {
		return i + 1 + len(end)
	}
	return 0
}

func showPacket(b []byte) (text string, n int) {
	if n = cutPacket(b); n == 0 || b[0] != 0 {
		return escape(b[:n]), n
	}
	kind := binary.BigEndian.Uint32(b[4:])
	name := fmt.Sprintf("%s %d", b[1:4], kind)
	if kind > 0 && kind < uint32(len(packets)) {
		name = packets[kind]
	}
	return strings.TrimRight(name+" "+escape(b[headerSize:n]), " "), n
}
