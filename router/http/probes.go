package http

import (
	"fmt"
	"net/http"
	"strings"

	wire "polystalk/codec/admin"
)

// livez says whether the process should be left alone.
func (a *API) livez(c *Call) error { return probe(c, a.op.Alive()) }

// readyz says whether clients should be sent here.
func (a *API) readyz(c *Call) error { return probe(c, a.op.Readiness()) }

// probe answers with a state of health: as JSON for who asks for that, else as lines for
// people. Parameters are not looked at but for verbose, since probes add their own.
func probe(c *Call, h *wire.Health) error {
	status := http.StatusOK
	if h.Status != "ok" {
		status = http.StatusServiceUnavailable
	}
	verbose := c.R.URL.Query().Has("verbose")
	if strings.Contains(c.R.Header.Get("Accept"), "application/json") {
		if !verbose {
			h = &wire.Health{Status: h.Status, State: h.State, Notes: h.Notes, Progress: h.Progress}
		}
		return c.Answer(status, h)
	}
	return c.Text(status, healthText(h, verbose))
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

// explain serves the page about a kind of problem.
func (a *API) explain(c *Call) error {
	k := wire.Kinds[c.R.PathValue("slug")]
	if k == nil {
		return wire.NotFound.Problem("there is no such kind of problem")
	}
	return c.Text(http.StatusOK, fmt.Sprintf("%s (%d)\n\n%s\n\nWhat to do: %s.\n", k.Title, k.Status, k.Explain, k.Remedy))
}
