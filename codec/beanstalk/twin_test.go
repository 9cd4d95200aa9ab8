package beanstalk

import (
	"bytes"
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

// The twin states the grammar a second time, as slowly and plainly as can be, so
// that fuzzing has something to compare with. It shares no code with the parser.

// twinCommands are tried in this order; the first with a word that begins the line has
// it. args says what the rest must be; its groups are named after the fields.
var twinCommands = []struct {
	kind Kind
	word string
	args *regexp.Regexp
}{
	{Put, "put ", twinArgs(`Pri u32, Delay u32, TTR u32, Size u32, any`)},
	{Peek, "peek ", twinArgs(`ID u64`)},
	{PeekReady, "peek-ready", twinArgs(``)},
	{PeekDelayed, "peek-delayed", twinArgs(``)},
	{PeekBuried, "peek-buried", twinArgs(``)},
	{ReserveWithTimeout, "reserve-with-timeout ", twinArgs(`Timeout u31, any`)},
	{ReserveJob, "reserve-job ", twinArgs(`ID u64`)},
	{Reserve, "reserve", twinArgs(``)},
	{Delete, "delete ", twinArgs(`ID u64`)},
	{Release, "release ", twinArgs(`ID u64, Pri u32, Delay u32`)},
	{Bury, "bury ", twinArgs(`ID u64, Pri u32`)},
	{Kick, "kick ", twinArgs(`Bound strtoul, any`)},
	{KickJob, "kick-job ", twinArgs(`ID u64`)},
	{Touch, "touch ", twinArgs(`ID u64`)},
	{StatsJob, "stats-job ", twinArgs(`ID u64`)},
	{StatsTube, "stats-tube ", twinArgs(`Name name`)},
	{Stats, "stats", twinArgs(``)},
	{Use, "use ", twinArgs(`Name name`)},
	{Watch, "watch ", twinArgs(`Name name`)},
	{Ignore, "ignore ", twinArgs(`Name name`)},
	{ListTubesWatched, "list-tubes-watched", twinArgs(``)},
	{ListTubeUsed, "list-tube-used", twinArgs(``)},
	{ListTubes, "list-tubes", twinArgs(``)},
	{Quit, "quit", twinArgs(`any`)},
	{Auth, "auth ", twinArgs(`Name token`)},
	{PauseTube, "pause-tube", twinArgs(`spaces, Name anyname, Delay u32`)},
}

// twinArgs makes a pattern of "Field type" items. A number takes all the digits
// there are, so one that follows something needs a space before it.
func twinArgs(items string) *regexp.Regexp {
	types := map[string]string{
		"u31": ` *(?P<u31_@>[0-9]+)`, "u32": ` *(?P<u32_@>[0-9]+)`, "u64": ` *(?P<u64_@>[0-9]+)`,
		"strtoul": `[ \t\n\v\f\r]*(?P<strtoul_@>[-+]?[0-9]+)`,
		"name":    `(?P<name_@>[-A-Za-z0-9+/;.$_()]+)`,
		"anyname": `(?P<name_@>[-A-Za-z0-9+/;.$_()]+)`,
		"token":   `(?P<token_@>(?s:.*))`,
		"spaces":  ` *`,
		"any":     `(?P<any>(?s:.*))`,
	}
	pattern := `^`
	for item := range strings.SplitSeq(items, ", ") {
		field, typ, ok := strings.Cut(item, " ")
		if !ok {
			typ = field
		}
		if strings.HasPrefix(typ, "u") && pattern != `^` {
			pattern += ` `
		}
		if item != "" {
			pattern += strings.ReplaceAll(types[typ], "@", field)
		}
	}
	return regexp.MustCompile(pattern + `\z`)
}

// twinParse is Parse by the twin, except that it starts from an empty Command.
func twinParse(b []byte) (cmd Command, n int, err error) {
	n = twinLineEnd(b)
	if n == 0 && len(b) >= MaxLine {
		return cmd, MaxLine, ErrLineTooLong
	}
	if n == 0 {
		return cmd, 0, nil
	}
	line := string(b[:n-2])
	if strings.Contains(line, "\x00") {
		return cmd, n, errBadFormat
	}
	for _, c := range twinCommands {
		if rest, ok := strings.CutPrefix(line, c.word); ok {
			if !twinFields(&cmd, c.kind, c.args, rest) {
				return Command{Kind: cmd.Kind}, n, errBadFormat
			}
			return cmd, n, nil
		}
	}
	return cmd, n, ErrUnknownCommand
}

func twinFields(cmd *Command, kind Kind, args *regexp.Regexp, rest string) bool {
	m := args.FindStringSubmatch(rest)
	if m == nil {
		return false
	}
	validName := true
	for i, group := range args.SubexpNames() {
		typ, field, _ := strings.Cut(group, "_")
		bits := map[string]uint{"u31": 31, "u32": 32, "u64": 64, "strtoul": 64}[typ]
		switch {
		case bits > 0:
			v, _ := new(big.Int).SetString(m[i], 10)
			if v.CmpAbs(new(big.Int).Lsh(big.NewInt(1), bits)) >= 0 {
				return false
			}
			u := new(big.Int).And(v, big.NewInt(0).SetUint64(1<<64-1)).Uint64()
			switch field {
			case "ID":
				cmd.ID = u
			case "Pri":
				cmd.Pri = uint32(u)
			case "Delay":
				cmd.Delay = uint32(u)
			case "TTR":
				cmd.TTR = max(1, uint32(u))
			case "Size":
				cmd.Size = uint32(u)
			case "Timeout":
				cmd.Timeout = uint32(u)
			case "Bound":
				cmd.Bound = uint32(u)
			}
		case typ == "token":
			cmd.Name = []byte(m[i])
		case typ == "name":
			cmd.Name = []byte(m[i])
			validName = len(m[i]) <= 200 && m[i][0] != '-'
		case typ == "any" && kind == Put:
			cmd.Trailing = m[i] != ""
		}
	}
	if validName || kind == PauseTube {
		cmd.Kind = kind
	}
	return validName
}

// twinLineEnd is lineEnd by the twin.
func twinLineEnd(b []byte) int {
	before, after, found := bytes.Cut(b, []byte("\r"))
	if found && bytes.HasPrefix(after, []byte("\n")) && len(before)+2 <= MaxLine {
		return len(before) + 2
	}
	return 0
}

// twinSkip skips as the reference does on a connection that delivers b byte by
// byte: it collects a window, and forgets it when it is full.
func twinSkip(b []byte) (n int, done bool) {
	var window []byte
	for i, c := range b {
		window = append(window, c)
		if twinLineEnd(window) > 0 {
			return i + 1, true
		}
		if len(window) == MaxLine {
			n += MaxLine
			window = nil
		}
	}
	return n, false
}

// appendCommand writes cmd as a client would.
func appendCommand(dst []byte, cmd *Command) []byte {
	dst = append(dst, cmd.Kind.String()...)
	num := func(v uint64) { dst = strconv.AppendUint(append(dst, ' '), v, 10) }
	switch cmd.Kind {
	case Put:
		num(uint64(cmd.Pri))
		num(uint64(cmd.Delay))
		num(uint64(cmd.TTR))
		num(uint64(cmd.Size))
		if cmd.Trailing {
			dst = append(dst, ' ')
		}
	case Release:
		num(cmd.ID)
		num(uint64(cmd.Pri))
		num(uint64(cmd.Delay))
	case Bury:
		num(cmd.ID)
		num(uint64(cmd.Pri))
	case Peek, ReserveJob, Delete, KickJob, Touch, StatsJob:
		num(cmd.ID)
	case ReserveWithTimeout:
		num(uint64(cmd.Timeout))
	case Kick:
		num(uint64(cmd.Bound))
	case Use, Watch, Ignore, StatsTube, Auth:
		dst = append(append(dst, ' '), cmd.Name...)
	case PauseTube:
		dst = append(append(dst, ' '), cmd.Name...)
		num(uint64(cmd.Delay))
	}
	return append(dst, crlf...)
}
