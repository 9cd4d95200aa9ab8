package beanstalk

import (
	"bytes"
	"errors"
	"math"
)

// The errors of Parse. The replies to the first two are MsgBadFormat and MsgUnknownCommand. None
// of them ends a connection.
var (
	// errBadFormat: the arguments are malformed, or the line has a NUL byte.
	errBadFormat = errors.New("beanstalk: bad format")
	// ErrUnknownCommand: the line begins with no command.
	ErrUnknownCommand = errors.New("beanstalk: unknown command")
	// ErrLineTooLong: the first MaxLine bytes have no valid line end.
	ErrLineTooLong = errors.New("beanstalk: line too long")
)

// Parse reads one command line from the front of b into cmd and reports the n
// bytes it used, including \r\n.
//
//	n == 0, nil         the line is incomplete: call again with the same bytes and
//	                    more. Never when b has MaxLine bytes.
//	n > 0, nil          a command. Name aliases b; all else is a copy.
//	errBadFormat,
//	ErrUnknownCommand   reply, discard n bytes, continue.
//	ErrLineTooLong      discard n (MaxLine) bytes, call SkipLine until it is done,
//	                    then reply MsgBadFormat.
//
// A line ends at its first \r if \n is next. A lone \n does not end a line. After a \r
// without \n, no later \r\n within the first MaxLine bytes ends the line either.
//
// After an error cmd.Kind is Unknown, with one exception: a pause-tube with a bad name and a valid
// number has Kind PauseTube with errBadFormat, because the reference counts it in cmd-pause-tube.
func Parse(cmd *Command, b []byte) (n int, err error) {
	n = lineEnd(b)
	if n == 0 {
		if len(b) >= MaxLine {
			cmd.Kind = Unknown
			return MaxLine, ErrLineTooLong
		}
		return 0, nil
	}
	return n, parseLine(cmd, b[:n-2])
}

// SkipLine skips the rest of the line after an ErrLineTooLong, in windows of MaxLine bytes: only
// the first \r of each window can end the line, as in Parse. The caller discards n bytes and,
// unless done, calls again. Done: those n bytes end with the line's \r\n. n == 0 and not done: call
// again with the same bytes and more.
func SkipLine(b []byte) (n int, done bool) {
	for {
		if end := lineEnd(b[n:]); end > 0 {
			return n + end, true
		}
		if len(b)-n < MaxLine {
			return n, false
		}
		n += MaxLine
	}
}

// lineEnd returns the length of the line at the front of b, including \r\n, or 0
// if the first MaxLine bytes of b have no line end.
func lineEnd(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	// A \r in the last byte of the window has no room for its \n.
	i := bytes.IndexByte(b[:min(len(b), MaxLine)-1], '\r')
	if i < 0 || b[i+1] != '\n' {
		return 0
	}
	return i + 2
}

// parseLine parses a line without its \r\n.
func parseLine(cmd *Command, line []byte) error {
	cmd.Kind = Unknown
	// A NUL would end a C string, so the reference checks for one before it reads the command.
	if bytes.IndexByte(line, 0) >= 0 {
		return errBadFormat
	}
	kind, args := match(line)
	if kind == Unknown {
		return ErrUnknownCommand
	}
	if !parseArgs(cmd, kind, args) {
		return errBadFormat
	}
	cmd.Kind = kind
	return nil
}

// match finds the command at the front of line, and its arguments: the bytes after the matched
// ones. A word with arguments includes the space after it, except pause-tube. For a word without
// arguments, parseArgs checks that nothing follows.
//
// Of two words with the same beginning the longer one is compared first, as in the reference: so
// reserve-with-timeout without its space is a reserve with further bytes.
func match(line []byte) (kind Kind, args []byte) {
	if len(line) < 4 { // "put " and "quit" are the shortest
		return Unknown, nil
	}
	switch line[0] {
	case 'p':
		switch {
		case has(line, "put "):
			return Put, line[len("put "):]
		case has(line, "peek "):
			return Peek, line[len("peek "):]
		case has(line, "peek-ready"):
			return PeekReady, line[len("peek-ready"):]
		case has(line, "peek-delayed"):
			return PeekDelayed, line[len("peek-delayed"):]
		case has(line, "peek-buried"):
			return PeekBuried, line[len("peek-buried"):]
		case has(line, "pause-tube"):
			return PauseTube, line[len("pause-tube"):]
		}
	case 'r':
		switch {
		case has(line, "reserve-with-timeout "):
			return ReserveWithTimeout, line[len("reserve-with-timeout "):]
		case has(line, "reserve-job "):
			return ReserveJob, line[len("reserve-job "):]
		case has(line, "reserve"):
			return Reserve, line[len("reserve"):]
		case has(line, "release "):
			return Release, line[len("release "):]
		}
	case 'd':
		if has(line, "delete ") {
			return Delete, line[len("delete "):]
		}
	case 'b':
		if has(line, "bury ") {
			return Bury, line[len("bury "):]
		}
	case 't':
		if has(line, "touch ") {
			return Touch, line[len("touch "):]
		}
	case 'u':
		if has(line, "use ") {
			return Use, line[len("use "):]
		}
	case 'w':
		if has(line, "watch ") {
			return Watch, line[len("watch "):]
		}
	case 'i':
		if has(line, "ignore ") {
			return Ignore, line[len("ignore "):]
		}
	case 'k':
		switch {
		case has(line, "kick "):
			return Kick, line[len("kick "):]
		case has(line, "kick-job "):
			return KickJob, line[len("kick-job "):]
		}
	case 's':
		switch {
		case has(line, "stats-job "):
			return StatsJob, line[len("stats-job "):]
		case has(line, "stats-tube "):
			return StatsTube, line[len("stats-tube "):]
		case has(line, "stats"):
			return Stats, line[len("stats"):]
		}
	case 'l':
		switch {
		case has(line, "list-tubes-watched"):
			return ListTubesWatched, line[len("list-tubes-watched"):]
		case has(line, "list-tube-used"):
			return ListTubeUsed, line[len("list-tube-used"):]
		case has(line, "list-tubes"):
			return ListTubes, line[len("list-tubes"):]
		}
	case 'q':
		if has(line, "quit") {
			return Quit, line[len("quit"):]
		}
	case 'a':
		if has(line, "auth ") {
			return Auth, line[len("auth "):]
		}
	}
	return Unknown, nil
}

// has reports whether b begins with word. With a constant word it compiles to a few integer
// comparisons.
func has(b []byte, word string) bool {
	return len(b) >= len(word) && string(b[:len(word)]) == word
}

// parseArgs reads the arguments of a command into cmd and reports whether they are well formed. It
// sets cmd.Kind only in the exception that Parse documents.
func parseArgs(cmd *Command, kind Kind, args []byte) (ok bool) {
	switch kind {
	case Put:
		return parsePut(cmd, args)
	case Reserve, PeekReady, PeekDelayed, PeekBuried, Stats, ListTubes, ListTubeUsed, ListTubesWatched:
		return len(args) == 0
	case Delete, Touch, Peek, ReserveJob, KickJob, StatsJob:
		cmd.ID, args, ok = readU64(args)
		return ok && len(args) == 0
	case ReserveWithTimeout: // bytes after the number are ignored
		cmd.Timeout, _, ok = readU32(args)
		return ok && cmd.Timeout <= math.MaxInt32
	case Release:
		if cmd.ID, args, ok = readU64(args); !ok {
			return false
		}
		if cmd.Pri, args, ok = readU32(args); !ok {
			return false
		}
		cmd.Delay, args, ok = readU32(args)
		return ok && len(args) == 0
	case Bury:
		if cmd.ID, args, ok = readU64(args); !ok {
			return false
		}
		cmd.Pri, args, ok = readU32(args)
		return ok && len(args) == 0
	case Use, Watch, Ignore, StatsTube:
		cmd.Name = args
		return ValidTubeName(args)
	case Auth:
		cmd.Name = args
		return true
	case Kick:
		cmd.Bound, ok = readBound(args)
		return ok
	case PauseTube:
		return parsePauseTube(cmd, args)
	case Quit: // bytes after it are ignored
		return true
	}
	return false
}

func parsePut(cmd *Command, args []byte) (ok bool) {
	if cmd.Pri, args, ok = readU32(args); !ok {
		return false
	}
	if cmd.Delay, args, ok = readU32(args); !ok {
		return false
	}
	if cmd.TTR, args, ok = readU32(args); !ok {
		return false
	}
	if cmd.Size, args, ok = readU32(args); !ok {
		return false
	}
	cmd.TTR = max(cmd.TTR, 1)
	cmd.Trailing = len(args) > 0
	return true
}

// parsePauseTube reads a name of any length, then the seconds, and only then checks the name. The
// reference counts the command between these checks.
func parsePauseTube(cmd *Command, args []byte) (ok bool) {
	for len(args) > 0 && args[0] == ' ' {
		args = args[1:]
	}
	n := nameLen(args)
	if n == 0 {
		return false
	}
	cmd.Name = args[:n:n]
	cmd.Delay, args, ok = readU32(args[n:])
	if !ok || len(args) > 0 {
		return false
	}
	cmd.Kind = PauseTube
	return ValidTubeName(cmd.Name)
}
