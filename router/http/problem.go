package http

import (
	"encoding/json"
	"net/http"

	wire "polystalk/codec/admin"
)

// sendProblem answers with a problem.
func sendProblem(w http.ResponseWriter, r *http.Request, id string, p *wire.Problem) {
	about := *p
	about.RequestID = id
	b, _ := json.Marshal(about) // it has strings and a number alone
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Del("ETag")
	w.WriteHeader(p.Status)
	if r.Method != http.MethodHead {
		w.Write(append(b, '\n'))
	}
}
