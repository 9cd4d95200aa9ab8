package e2e

import (
	"strings"
	"testing"

	"polystalk/cmd/polystalk/cli"
	"polystalk/cmd/polystalk/client"
)

// TestTextsThatComeInParts: a character may begin in one part of a body and end in the next.
func TestTextsThatComeInParts(t *testing.T) {
	p, _ := polystalkd(t, "-z", "1000000")
	text := "a" + strings.Repeat("€", 150_000) + "\n"
	for _, body := range []string{text, text + "\u009b2J", text + "\xe2\x82"} {
		p.in = body
		p.must(client.OK, "put", "mail")
	}
	p.screens = cli.Screens{Out: true}
	if got := p.must(client.OK, "body", "1").stdout; got != text {
		t.Errorf("%d bytes are shown, of %d", len(got), len(text))
	}
	for _, id := range []string{"2", "3"} {
		if got := p.must(client.Usage, "body", id).stdout; strings.HasSuffix(got, "\u009b2J") || strings.HasSuffix(got, "\xe2\x82") {
			t.Errorf("what is no text is shown of job %s", id)
		}
	}
}
