package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"polystalk/cmd/polystalk/client"
)

// TestCountThatWasBrokenOff: somebody else may cancel an operation that counts, or the server
// ends. What it has counted by then is not what would be done, so nothing is.
func TestCountThatWasBrokenOff(t *testing.T) {
	done := 0
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			DryRun bool `json:"dry_run"`
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || !asked.DryRun {
			done++
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"1","action":"delete","dry_run":true,"state":"cancelled","matched":1,"to_look":1000000,"looked_at":7,"skipped":{},"as_of":"2026-01-31T12:00:00Z",
			"problem":{"type":"/problems/cancelled","title":"It was cancelled","status":409,"detail":"the token \"other\" has cancelled it","remedy":"do it again"}}`)
	}))
	defer h.Close()
	p := &program{t: t, server: h.URL}
	for _, args := range [][]string{{"--yes"}, {"--dry-run"}} {
		o := p.must(client.NotDone, append([]string{"delete", "--tube", "mail"}, args...)...)
		if !strings.Contains(o.stderr, `the token "other" has cancelled it`) || done != 0 {
			t.Errorf("delete %v: %q after %d operations that were no count", args, o.stderr, done)
		}
	}
}
