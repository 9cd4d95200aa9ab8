package conversation

import (
	"bytes"
	"strconv"
	"strings"
)

// unquote removes the double quotes that 1.13 puts around YAML strings and
// older references do not.
func unquote(line string) string {
	key, value, ok := strings.Cut(line, `: "`)
	if !ok || !strings.HasSuffix(value, `"`) {
		return line
	}
	return key + ": " + strings.TrimSuffix(value, `"`)
}

// volatile names the keys of stats that differ from server to server and from
// moment to moment.
var volatile = map[string]bool{
	"pid": true, "version": true, "rusage-utime": true, "rusage-stime": true, "uptime": true,
	"hostname": true, "os": true, "platform": true,
}

// timely names the keys that count seconds, where two honest servers may be
// one apart.
var timely = map[string]bool{"age": true, "time-left": true, "pause-time-left": true}

// isVolatile tells whether the value of a YAML line must not be compared. The
// id of stats is the server's own, sixteen hexadecimal digits; the id of
// stats-job is a job's.
func isVolatile(key string, statsBody bool) bool {
	return volatile[key] || key == "id" && statsBody
}

// isStats tells the body of stats from that of stats-job and stats-tube.
func isStats(body []byte) bool {
	return bytes.Contains(body, []byte("\nrusage-utime: "))
}

// template renders a YAML line of a real server as transcript text.
func template(line []byte, statsBody bool) string {
	key, value, ok := strings.Cut(string(line), ": ")
	if !ok {
		return escape(line)
	}
	switch {
	case key == "total-connections":
		return key + ": {n}" // whoever waited for the server to listen is among them
	case isVolatile(key, statsBody):
		if strings.HasPrefix(value, `"`) {
			return key + `: "{any}"`
		}
		return key + ": {any}"
	case timely[key] && value != "0":
		return key + ": {near " + value + "}"
	case timely[key]:
		return key + ": {near 0}"
	}
	return escape(line)
}

// number parses the value of key in a YAML body.
func number(body []byte, key string) (uint64, bool) {
	for line := range bytes.SplitSeq(body, []byte("\n")) {
		if k, v, ok := strings.Cut(string(line), ": "); ok && k == key {
			n, err := strconv.ParseUint(v, 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

func containsLine(body []byte, line string) bool {
	return bytes.Contains(body, []byte("\n"+line+"\n"))
}
