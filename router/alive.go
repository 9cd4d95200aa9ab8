package router

import (
	"errors"
	"strings"
)

// Alive is nil while the server gets on: every event loop has a turn, and every shard can be
// owned, within a second. Else the error names what does not. It says what a probe by HTTP
// hears (admin.Operator.Alive), for whoever is to watch the process, and may be called at
// any time.
func (s *Server) Alive() error {
	h := s.operator.Alive()
	var failed []string
	for _, c := range h.Checks {
		if c.Detail != "" {
			failed = append(failed, c.Detail)
		}
	}
	if failed == nil {
		return nil
	}
	return errors.New(strings.Join(failed, "; "))
}
