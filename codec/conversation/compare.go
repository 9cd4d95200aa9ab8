package conversation

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// cutReply splits the first reply off a series of them.
func cutReply(b []byte) (reply, rest []byte) {
	end := bytes.Index(b, []byte("\r\n"))
	if end < 0 {
		return b, nil
	}
	n := end + 2
	word, _, _ := bytes.Cut(b[:end], []byte(" "))
	switch string(word) {
	case "RESERVED", "FOUND", "OK":
		size, err := strconv.Atoi(string(b[bytes.LastIndexByte(b[:end], ' ')+1 : end]))
		if err == nil && size >= 0 && size <= len(b)-n-2 {
			n += size + 2
		}
	}
	return b[:n], b[n:]
}

// asked says how many stats commands the harness itself has sent to each of
// two servers; unknown, that it cannot say how many of them came before the
// reply in question.
type asked struct {
	reference, subject uint64
	unknown            bool
	kept               bool // ours keeps a journal, the reference does not
}

// compareReply says how two replies differ, or "". Only YAML is looked into:
// quotes that a reference before 1.13 does not write, values that belong to
// the process, seconds that were rounded at another moment, and cmd-stats as
// far as the harness itself asked.
func compareReply(a, b []byte, unquoted bool, asked asked) string {
	if bytes.Equal(a, b) {
		return ""
	}
	differ := fmt.Sprintf("reference %q\n\tours      %q", clip(a), clip(b))
	if !bytes.HasPrefix(a, []byte("OK ")) || !bytes.HasPrefix(b, []byte("OK ")) {
		return differ
	}
	linesA, linesB := yamlLines(a), yamlLines(b)
	if len(linesA) != len(linesB) {
		return differ
	}
	for i := range linesA {
		if i == 0 {
			continue // the head: sizes follow from the lines
		}
		if why := compareLine(linesA[i], linesB[i], isStats(a), unquoted, asked); why != "" {
			return why + "\n\t" + differ
		}
	}
	return ""
}

// yamlLines splits a reply with head; the last elements are the bare CRLF.
func yamlLines(reply []byte) []string {
	return strings.Split(string(reply), "\n")
}

func compareLine(a, b string, stats, unquoted bool, asked asked) string {
	if unquoted {
		b = unquote(b)
	}
	if a == b && asked.reference == asked.subject {
		return ""
	}
	keyA, valueA, okA := strings.Cut(a, ": ")
	keyB, valueB, okB := strings.Cut(b, ": ")
	differ := fmt.Sprintf("%q and %q", a, b)
	if okA != okB || keyA != keyB {
		return differ
	}
	if !okA {
		if a == b {
			return ""
		}
		return differ
	}
	if isVolatile(keyA, stats) || asked.kept && (keyA == "file" || strings.HasPrefix(keyA, "binlog-")) {
		return ""
	}
	nA, errA := strconv.ParseInt(strings.TrimSpace(valueA), 10, 64)
	nB, errB := strconv.ParseInt(strings.TrimSpace(valueB), 10, 64)
	if errA == nil && errB == nil {
		switch {
		case timely[keyA] && nA-nB <= 1 && nB-nA <= 1:
			return ""
		case keyA == "cmd-stats" && stats:
			if asked.unknown || nA-int64(asked.reference) == nB-int64(asked.subject) {
				return ""
			}
			return differ
		}
	}
	if a == b {
		return ""
	}
	return differ
}
