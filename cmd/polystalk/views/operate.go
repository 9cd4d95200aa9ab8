package views

import "polystalk/cmd/polystalk/output"

// Connections is a list of connections.
var Connections = output.View{
	Rows: "connections", Name: "id", Empty: "there are no such connections",
	Columns: []output.Column{
		Column("ID", "id", output.Number),
		Column("PEER", "peer", output.Text),
		Column("PROTOCOL", "protocol", output.Text),
		Column("STATE", "state", output.Text),
		Column("OPEN", "open_seconds", output.Age),
		Column("HOLDS", "holding", output.Number),
		Column("FOR", "hold_seconds", output.Age),
		Column("USES", "used_tube.name", output.Text),
		Column("WATCHES", "watched_tubes.name", output.Text),
		Column("LAST", "last_command", output.Text),
		Column("AGO", "last_command_seconds", output.Age),
	},
	Wide: []output.Column{
		Column("CLIENT", "client_id", output.Text),
		Column("WAITS", "wait_seconds", output.Age),
		Column("PRODUCER", "producer", output.Text),
		Column("WORKER", "worker", output.Text),
		Column("STOPPED-BY", "stopped_by", output.Text),
		Column("RECEIVED", "received_bytes_total", output.Bytes),
		Column("SENT", "sent_bytes_total", output.Bytes),
		Column("HELD", "held_bytes", output.Bytes),
		Column("UNSENT", "unsent_bytes", output.Bytes),
	},
}

// Operations is a list of operations on many jobs.
var Operations = output.View{
	Rows: "operations", Name: "id", Empty: "nothing was done to many jobs since the server was started",
	Columns: []output.Column{
		Column("ID", "id", output.Number),
		Column("ACTION", "action", output.Text),
		Column("DRY", "dry_run", output.Text),
		Column("STATE", "state", output.Text),
		Column("BEGAN", "began", output.Moment),
		Column("TUBE", "asked.select.tube|asked.select.tube_path", output.Text),
		Column("LOOKED-AT", "looked_at", output.Number),
		Column("OF", "to_look_at", output.Number),
		Column("MATCHED", "matched", output.Number),
		Column("DONE", "done", output.Number),
		Column("BY", "name", output.Text),
	},
	Wide: []output.Column{
		Column("ENDED", "ended", output.Moment),
		Column("SELECT", "asked.select", output.Text),
		Column("SKIPPED", "skipped", output.Text),
		Column("PROBLEM", "problem.detail", output.Text),
	},
}

// Audit is what was changed by whom.
var Audit = output.View{
	Rows: "entries", Name: "number", Empty: "nothing was changed by HTTP since the server was started",
	Columns: []output.Column{
		Column("TIME", "time", output.Moment),
		Column("WHO", "name", output.Text),
		Column("ROLE", "role", output.Text),
		Column("CLIENT", "client", output.Text),
		Column("STATUS", "status", output.Number),
		Column("AFFECTED", "affected", output.Number),
		Column("ACTION", "action", output.Text),
		Column("PATH", "path", output.Text),
		Column("DETAIL", "detail", output.Text),
	},
	Wide: []output.Column{Column("NUMBER", "number", output.Number), Column("REQUEST", "request_id", output.Text)},
}

// Health is what a probe answers.
var Health = output.View{Columns: []output.Column{
	Column("status", "status", output.Text),
	Column("state", "state", output.Text),
	Column("notes", "notes", output.Text),
	Column("journal read", "progress.read_bytes", output.Bytes),
	Column("of", "progress.all_bytes", output.Bytes),
}, Wide: []output.Column{Column("checks", "checks", output.Text)}}

// Drain is whether new jobs are refused.
var Drain = output.View{Columns: []output.Column{Column("draining", "draining", output.Text)}}

// Reload is what has come of reading the configuration again.
var Reload = output.View{Columns: []output.Column{Column("applied", "applied", output.Text), Column("needs a restart", "restart", output.Text)}}

// LogLevel is from which level on the server logs.
var LogLevel = output.View{Name: "level", Columns: []output.Column{Column("level", "level", output.Text)}}

// Token is one that was made.
var Token = output.View{Name: "token", Columns: []output.Column{Column("token", "token", output.Text), Column("line", "line", output.Text)}}

// Transfers are jobs that were moved or copied.
var Transfers = output.View{Rows: "jobs", Name: "id", Columns: []output.Column{
	Column("ID", "id", output.Number), Column("FROM", "from", output.Number), Column("TUBE", "tube", output.Text),
}}

// Cluster is the servers of one.
var Cluster = output.View{
	Rows: "members", Name: "name",
	Columns: []output.Column{
		Column("NAME", "name", output.Text),
		Column("KIND", "kind", output.Text),
		Column("LEADS", "leads", output.Text),
		Column("CONNECTED", "connected", output.Text),
		Column("LACKS", "lag_entries", output.Number),
		Column("LATE", "lag_seconds", output.Age),
		Column("HEARD", "heard_seconds", output.Age),
		Column("ROOM", "room_bytes", output.Bytes),
		Column("DISK-FULL", "disk_full", output.Text),
		Column("ADDRESS", "address", output.Text),
		Column("TROUBLE", "trouble", output.Text),
	},
	Wide: []output.Column{
		Column("ID", "id", output.Text),
		Column("FETCHED", "fetching.sent_bytes", output.Bytes),
		Column("OF", "fetching.all_bytes", output.Bytes),
		Column("HAS", "match_index", output.Number),
		Column("CLOCK-AHEAD", "clock_ahead_seconds", output.Number),
		Column("CERTIFICATE-UNTIL", "certificate_not_after", output.Moment),
		Column("SENT", "sent_bytes_total", output.Bytes),
		Column("RECEIVED", "received_bytes_total", output.Bytes),
		Column("DROPPED", "dropped_messages_total", output.Number),
	},
}
