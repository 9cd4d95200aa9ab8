package e2e

import (
	"net/http"
	"strings"
	"testing"
)

// TestApplyChangesNothingIfAnotherOperatorIsFaster, and says what to do.
func TestApplyChangesNothingIfAnotherOperatorIsFaster(t *testing.T) {
	asked := ""
	p := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if w.Header().Set("ETag", `"one"`); r.Method == "GET" {
			answer(w, 200, `{"policies":[{"match":"mail","attempts":3,"tubes":1}]}`)
			return
		}
		asked = r.Method + " " + r.URL.Path + " " + r.Header.Get("If-Match")
		answer(w, 412, `{"type":"/problems/changed","title":"changed","status":412,"field":"If-Match","detail":"the policies have another tag","remedy":"read them again"}`)
	})
	p.in = "[policy.mail]\nattempts = 4\n"
	p.says("nothing was changed: If-Match: the policies have another tag: apply the file again", 1, "policy", "apply", "-")
	if o := p.polystalk("policy", "apply", "-"); o.stdout != "" {
		t.Errorf("it shows changes that it has not made: %s", o.stdout)
	}
	if asked != `PUT /api/v1/policies "one"` {
		t.Errorf("it asks %s", asked)
	}
	// The same policies need no request.
	p.in, asked = "[policy.mail]\nattempts = 3\n", ""
	if o := p.must(0, "policy", "apply", "-"); asked != "" || !strings.Contains(o.stdout, "attempts=3") {
		t.Errorf("it asks %s, and shows %s", asked, o.stdout)
	}
}
