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
	must(t, s.listed([]byte(`{"id":"1","tube":"a","state":"ready","body_bytes":70000,"body":"pre","body_truncated":true}`)))
	if err := s.w.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, body, err := readLine([]byte(out.String())); err != nil || string(body) != "edited" {
		t.Errorf("%s is read as %q, %v", out.String(), body, err)
	}
}

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
