package snapshot

import "strings"

// Frame is a frame.
func Frame(kind byte, body string) string {
	var b strings.Builder
	(&frameWriter{w: &b}).write(kind, []byte(body))
	return b.String()
}
