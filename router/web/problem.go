package web

import (
	"encoding/json"
	"fmt"
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

// explain serves the page about a kind of problem.
func (s *Server) explain(c *call) error {
	k := wire.Kinds[c.r.PathValue("slug")]
	if k == nil {
		return wire.NotFound.Problem("there is no such kind of problem")
	}
	return c.text(http.StatusOK, fmt.Sprintf("%s (%d)\n\n%s\n\nWhat to do: %s.\n", k.Title, k.Status, k.Explain, k.Remedy))
}
