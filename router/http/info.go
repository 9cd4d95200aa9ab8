package http

import (
	_ "embed"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	_ "net/http/pprof"
	"strings"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/admin"
)

// livez reports whether the process should be left running.
func (a *API) livez(c *call) error { return sendHealth(c, a.op.Alive()) }

// readyz reports whether the server is ready for clients.
func (a *API) readyz(c *call) error { return sendHealth(c, a.op.Readiness()) }

// sendHealth sends a state of health as text, or as JSON if the client accepts that. It ignores
// parameters except verbose, since probes may add their own.
func sendHealth(c *call, h *wire.Health) error {
	status := http.StatusOK
	if h.Status != "ok" {
		status = http.StatusServiceUnavailable
	}
	verbose := c.Query.Has("verbose")
	if strings.Contains(c.R.Header.Get("Accept"), "application/json") {
		if !verbose {
			h = &wire.Health{Status: h.Status, State: h.State, Notes: h.Notes, Progress: h.Progress}
		}
		return c.answer(status, h)
	}
	return c.text(status, healthText(h, verbose))
}

func healthText(h *wire.Health, verbose bool) string {
	var b strings.Builder
	b.WriteString(h.Status + "\n")
	if h.Progress != nil {
		fmt.Fprintf(&b, "reading the journal: %d of %d bytes\n", h.Progress.ReadBytes, h.Progress.AllBytes)
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
func (a *API) explain(c *call) error {
	k := wire.Kinds[c.R.PathValue("slug")]
	if k == nil {
		return wire.NotFound.Problem("there is no kind of problem with this name")
	}
	return c.text(http.StatusOK, fmt.Sprintf("%s (%d)\n\n%s\n\nWhat to do: %s.\n", k.Title, k.Status, k.Explain, k.Remedy))
}

func (a *API) getServer(c *call) error {
	v, err := a.op.Sample(c.Ctx, admin.SampleFor)
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, a.serverValue(v))
}

// serverValue returns the server in the form of the API.
func (a *API) serverValue(v *admin.Sample) *wire.Server {
	s := a.op.Server(v)
	s.Version = a.opts.Version
	s.Peers = a.opts.Peers
	return s
}

func (a *API) getJournal(c *call) error {
	v, err := a.op.Journal()
	return c.result(v, err)
}

func (a *API) getConfig(c *call) error {
	return c.answer(http.StatusOK, wire.Config{Settings: a.opts.Settings()})
}

func (a *API) reload(c *call) error {
	did, err := a.opts.Reload()
	if err != nil {
		return err
	}
	c.Affected = uint64(len(did.Applied))
	return c.answer(http.StatusOK, did)
}

// getAudit lists the newest entries, or the newest ones below a number.
func (a *API) getAudit(c *call) error {
	limit, before := c.Query.number("limit", 100, 1, auditMax), c.Query.number("before", math.MaxUint64, 0, math.MaxUint64)
	if c.Query.err != nil {
		return c.Query.err
	}
	return c.answer(http.StatusOK, wire.Audit{Entries: a.audit.newest(int(limit), before), Kept: auditMax})
}

// levels are the levels of the log.
var levels = map[string]slog.Level{
	"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
}

func (a *API) getLogLevel(c *call) error {
	return c.answer(http.StatusOK, wire.LogLevel{Level: strings.ToLower(a.opts.Level.Level().String())})
}

func (a *API) putLogLevel(c *call, in *wire.LogLevel) error {
	l, ok := levels[in.Level]
	if !ok {
		return wire.Invalid.With("level", "the level is unknown", "give debug, info, warn or error")
	}
	a.opts.Level.Set(l)
	return c.answer(http.StatusOK, in)
}

func (a *API) getDrain(c *call) error {
	return c.answer(http.StatusOK, wire.Drain{Draining: a.op.Draining()})
}

func (a *API) setDrain(on bool) func(c *call) error {
	return func(c *call) error {
		a.op.SetDraining(on)
		return a.getDrain(c)
	}
}

// description describes the API in OpenAPI 3.1. Tests compare it with the routes and with
// every answer.
//
//go:embed openapi.json
var description []byte

func (a *API) describe(c *call) error {
	if c.tagged(hashed(string(description)), false) {
		return nil
	}
	return c.send(http.StatusOK, "application/json", description)
}

// profileMost is the longest profile, in seconds.
const profileMost = 60

// showProfile serves a profile of Go's runtime. It stops when the client or the server does.
func (a *API) showProfile(c *call) error {
	if c.Query.number("seconds", 0, 0, profileMost); c.Query.err != nil {
		return c.Query.err
	}
	c.begun = time.Now()
	http.NewResponseController(c.W).SetReadDeadline(time.Time{}) // the deadline would end the profile
	if c.R.Method != http.MethodHead {
		http.DefaultServeMux.ServeHTTP(c.W, c.R.WithContext(c.Ctx)) // package pprof has registered its pages there
	}
	return nil
}

// showLeader reports whether this server leads, for a proxy that sends clients to the leader. A
// server without a cluster leads. In a cluster, showLeader confirms that no other server leads.
func (a *API) showLeader(c *call) error {
	leads, leader := a.op.Leads()
	switch {
	case leads && a.op.Confirm(c.Ctx) == nil:
		return c.text(http.StatusOK, "ok\n")
	case !leads && leader != "":
		return c.text(http.StatusServiceUnavailable, "server "+leader+" leads\n")
	}
	return c.text(http.StatusServiceUnavailable, "no server of the cluster leads\n")
}

func (a *API) getCluster(c *call) error {
	s, err := a.op.ClusterStatus()
	return c.result(s, err)
}

func (a *API) removeMember(c *call) error {
	return a.changeCluster(c, "cluster-remove", func(k admin.Cluster) error { return k.Remove(c.Ctx, c.R.PathValue("node")) })
}

func (a *API) promoteMember(c *call) error {
	return a.changeCluster(c, "cluster-promote", func(k admin.Cluster) error { return k.Promote(c.Ctx, c.R.PathValue("node")) })
}

// transferCluster makes another server the leader. The answer has no body, because this server
// restarts.
func (a *API) transferCluster(c *call, in *wire.ClusterTransfer) error {
	c.Detail = in.Node
	return changed(c, a.op.ChangeCluster(c.Ctx, "cluster-transfer", func(k admin.Cluster) error { return k.Transfer(c.Ctx, in.Node) }))
}

// changeCluster makes a change, and answers with the cluster after it.
func (a *API) changeCluster(c *call, action string, change func(admin.Cluster) error) error {
	if err := a.op.ChangeCluster(c.Ctx, action, change); err != nil {
		return err
	}
	c.Affected = 1
	return a.getCluster(c)
}
