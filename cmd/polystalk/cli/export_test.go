package cli

import (
	"bufio"
	"io"
	"strings"
	"testing"
)

// TestExportedSizeIsThatOfTheBody: a body that was edited after the list was made is exported with
// its own size, or import would refuse the line.
func TestExportedSizeIsThatOfTheBody(t *testing.T) {
	var out strings.Builder
	s := &sink{w: bufio.NewWriter(&out), body: func(_ uint64, w io.Writer) error {
		_, err := io.WriteString(w, "edited")
		return err
	}}
	if err := s.listed([]byte(`{"id":"1","tube":"a","state":"ready","body_bytes":70000,"body":"pre","body_truncated":true}`)); err != nil {
		t.Fatal(err)
	}
	if err := s.w.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, body, err := readLine([]byte(out.String())); err != nil || string(body) != "edited" {
		t.Errorf("%s is read as %q, %v", out.String(), body, err)
	}
}
