package http

import (
	"polystalk/router/admin"
	"polystalk/router/session"
)

// clients emits the tubeFamilies of the protocols' connections, and of what is said on them.
func (e emitter) clients(v *admin.Sample) {
	for _, p := range v.Commands {
		e.gauge("connections", "Connections of clients, but for HTTP.", float64(p.Open), label{"protocol"}, p.Name)
		e.counter("connections_accepted_total", "Connections of clients that were served.", float64(p.Accepted), label{"protocol"}, p.Name)
	}
	e.gauge("connections_limit", "Connections of clients that are served at a time.", float64(v.Connections), nil)
	for i, n := range v.Sums.Rejected {
		e.counter("connections_rejected_total", "Connections of clients that were not served.", float64(n), label{"reason"}, session.Rejection(i).String())
	}
	for _, r := range []struct {
		role string
		n    int64
	}{{"producer", v.Sums.Producers}, {"worker", v.Sums.Workers}, {"waiting", v.Sums.Waiting}, {"sleeping", v.Sums.Sleeping}} {
		e.gauge("clients", "Connections that have put a job, that have asked for one, that wait for one, and that sleep until there is one.", float64(r.n), label{"role"}, r.role)
	}
	for _, p := range v.Commands {
		for _, c := range p.Kinds {
			e.counter("commands_total", "Commands received and well formed.", float64(c.Count), label{"protocol", "command"}, p.Name, c.Name)
		}
		for _, c := range p.Errors {
			e.counter("command_errors_total", "Answers that say that something was not understood or not done.", float64(c.Count), label{"protocol", "error"}, p.Name, c.Name)
		}
	}
}

// tallies are the loops' figures that are shown, under their names as counters of the server.
var tallies = map[session.Counter]struct{ name, help string }{
	session.CountReceived: {"network_received_bytes_total", "Bytes that clients of the protocols have sent."},
	session.CountSent:     {"network_sent_bytes_total", "Bytes that were sent to clients of the protocols."},
	session.CountDeferred: {"turns_deferred_total", "Turns put off, so that other connections had theirs."},
	session.CountBehind:   {"sockets_behind_total", "Times that a socket did not take all of a reply."},
	session.CountPauses:   {"input_pauses_total", "Times that a connection was not read for a while because it got ahead."},
	session.CountVisits:   {"shard_visits_total", "Times that an event loop took a shard."},
	session.CountBusy:     {"shard_busy_total", "Times that an event loop found a shard owned by another."},
	session.CountLeft:     {"inbox_sent_total", "Operations left in the inbox of a busy shard."},
}

// inside emits what tells how the event loops and shards get on.
func (e emitter) inside(v *admin.Sample) {
	e.gauge("event_loops", "Event loops.", float64(v.Loops), nil)
	e.gauge("shards", "Shards of the tubes.", float64(len(v.Shards)), nil)
	for i, n := range v.Sums.Counters {
		if t, ok := tallies[session.Counter(i)]; ok {
			e.counter(t.name, t.help, float64(n), nil)
		}
	}
	most := uint64(0)
	for _, c := range v.Shards {
		most = max(most, c.Deepest)
	}
	e.gauge("inbox_depth_max", "The most operations that were found waiting in an inbox.", float64(most), nil)
}
