package web

import (
	"fmt"
	"net/http"
	"strings"

	wire "polystalk/codec/admin"
)

// livez says whether the process should be left alone.
func (s *Server) livez(c *call) error { return c.probe(s.op.Alive()) }

// readyz says whether clients should be sent here.
func (s *Server) readyz(c *call) error { return c.probe(s.op.Readiness()) }

// probe answers with a state of health: as JSON for who asks for that, else as lines for
// people. Parameters are not looked at but for verbose, since probes add their own.
func (c *call) probe(h *wire.Health) error {
	status := http.StatusOK
	if h.Status != "ok" {
		status = http.StatusServiceUnavailable
	}
	verbose := c.r.URL.Query().Has("verbose")
	if strings.Contains(c.r.Header.Get("Accept"), "application/json") {
		if !verbose {
			h = &wire.Health{Status: h.Status, State: h.State, Notes: h.Notes, Progress: h.Progress}
		}
		return c.answer(status, h)
	}
	return c.text(status, healthText(h, verbose))
}

// healthText is a state of health for people: the verdict, then what there is to say.
func healthText(h *wire.Health, verbose bool) string {
	var b strings.Builder
	b.WriteString(h.Status + "\n")
	if h.Progress != nil {
		fmt.Fprintf(&b, "the journal is being read: %d of %d bytes\n", h.Progress.ReadBytes, h.Progress.AllBytes)
	}
	for _, n := range h.Notes {
		b.WriteString(n + "\n")
	}
	if verbose {
		fmt.Fprintf(&b, "state: %s\n", h.State)
		for _, k := range h.Checks {
			fmt.Fprintf(&b, "[%s] %s", k.Status, k.Name)
			if k.Detail != "" {
				b.WriteString(": " + k.Detail)
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}
