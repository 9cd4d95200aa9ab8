package cli

import (
	"bufio"
	"io"
	"strings"
	"testing"
)

// TestExportedSizeMatchesTheBody, even if the body was edited after the list was made.
func TestExportedSizeMatchesTheBody(t *testing.T) {
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
