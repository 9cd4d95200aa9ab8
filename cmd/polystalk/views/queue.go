package views

import "polystalk/cmd/polystalk/output"

// Server is stats.
var Server = output.View{
	Name: "hostname",
	Columns: []output.Column{
		Column("version", "version", output.Text),
		Column("state", "state", output.Text),
		Column("draining", "draining", output.Text),
		Column("uptime", "uptime_seconds", output.Age),
		Column("tubes", "tubes", output.Number),
		Column("ready", "jobs.ready", output.Number),
		Column("urgent", "jobs.urgent", output.Number),
		Column("delayed", "jobs.delayed", output.Number),
		Column("reserved", "jobs.reserved", output.Number),
		Column("buried", "jobs.buried", output.Number),
		Column("jobs so far", "jobs_total", output.Number),
		Column("timeouts", "job_timeouts_total", output.Number),
		Column("connections", "connections.open", output.Number),
		Column("limit", "connections.limit", output.Number),
		Column("producers", "connections.producers", output.Number),
		Column("workers", "connections.workers", output.Number),
		Column("waiting", "connections.waiting", output.Number),
	},
	Wide: []output.Column{
		Column("hostname", "hostname", output.Text),
		Column("pid", "pid", output.Number),
		Column("go", "go_version", output.Text),
		Column("loops", "loops", output.Number),
		Column("shards", "shards", output.Number),
		Column("largest body", "max_job_size_bytes", output.Bytes),
		Column("memory mapped", "memory_mapped_bytes", output.Bytes),
	},
}

var tubeColumns = []output.Column{
	Column("TUBE", "name", output.Text),
	Column("READY", "jobs.ready", output.Number),
	Column("DELAYED", "jobs.delayed", output.Number),
	Column("RESERVED", "jobs.reserved", output.Number),
	Column("BURIED", "jobs.buried", output.Number),
	Column("OLDEST", "oldest_ready_seconds", output.Age),
	Column("PUT/S", "rates.put_per_second", output.Rate),
	Column("DELETE/S", "rates.delete_per_second", output.Rate),
	Column("WAITING", "waiting", output.Number),
	Column("PAUSED", "pause_left_seconds", output.Age),
}

var tubeWide = []output.Column{
	Column("URGENT", "jobs.urgent", output.Number),
	Column("BYTES", "job_body_bytes", output.Bytes),
	Column("USING", "using", output.Number),
	Column("WATCHING", "watching", output.Number),
	Column("RESERVE/S", "rates.reserve_per_second", output.Rate),
	Column("TIMEOUT/S", "rates.timeout_per_second", output.Rate),
	Column("WAIT-P50", "wait.p50_seconds", output.Age),
	Column("WAIT-P99", "wait.p99_seconds", output.Age),
	Column("RUN-P50", "run.p50_seconds", output.Age),
	Column("RUN-P99", "run.p99_seconds", output.Age),
	Column("JOBS", "jobs_total", output.Number),
	Column("DELETES", "deletes_total", output.Number),
}

// Tubes is a list of tubes.
var Tubes = output.View{Rows: "tubes", Name: "name", Columns: tubeColumns, Wide: tubeWide}

// Tube is one of them.
var Tube = output.View{
	Name: "name",
	Columns: []output.Column{
		Column("tube", "name", output.Text),
		Column("path", "path", output.Text),
		Column("ready", "jobs.ready", output.Number),
		Column("urgent", "jobs.urgent", output.Number),
		Column("delayed", "jobs.delayed", output.Number),
		Column("reserved", "jobs.reserved", output.Number),
		Column("buried", "jobs.buried", output.Number),
		Column("oldest ready", "oldest_ready_seconds", output.Age),
		Column("body bytes", "job_body_bytes", output.Bytes),
		Column("put/s", "rates.put_per_second", output.Rate),
		Column("reserve/s", "rates.reserve_per_second", output.Rate),
		Column("delete/s", "rates.delete_per_second", output.Rate),
		Column("wait p50", "wait.p50_seconds", output.Age),
		Column("wait p99", "wait.p99_seconds", output.Age),
		Column("run p50", "run.p50_seconds", output.Age),
		Column("run p99", "run.p99_seconds", output.Age),
		Column("using", "using", output.Number),
		Column("watching", "watching", output.Number),
		Column("waiting", "waiting", output.Number),
		Column("paused for", "pause_left_seconds", output.Age),
	},
	Wide: []output.Column{
		Column("jobs so far", "jobs_total", output.Number),
		Column("deletes", "deletes_total", output.Number),
		Column("pauses", "pauses_total", output.Number),
		Column("pause", "pause_seconds", output.Age),
		Column("timeout/s", "rates.timeout_per_second", output.Rate),
		Column("events", "events_total", output.Text),
	},
}

// Jobs is a list of jobs.
var Jobs = output.View{
	Rows: "jobs", Name: "id",
	Columns: []output.Column{
		Column("ID", "id", output.Number),
		Column("TUBE", "tube", output.Text),
		Column("STATE", "state", output.Text),
		Column("PRI", "pri", output.Number),
		Column("AGE", "age_seconds", output.Age),
		Column("LEFT", "left_seconds", output.Age),
		Column("TTR", "ttr_seconds", output.Age),
		Column("BYTES", "body_bytes", output.Bytes),
		Column("BODY", "body", output.Body),
	},
	Wide: []output.Column{
		Column("DELAY", "delay_seconds", output.Age),
		Column("IN-STATE", "state_seconds", output.Age),
		Column("RESERVES", "reserves_total", output.Number),
		Column("TIMEOUTS", "timeouts_total", output.Number),
		Column("RELEASES", "releases_total", output.Number),
		Column("BURIES", "buries_total", output.Number),
		Column("KICKS", "kicks_total", output.Number),
		Column("HOLDER", "holder.peer", output.Text),
	},
}

// Job is one of them.
var Job = output.View{
	Name: "id",
	Columns: []output.Column{
		Column("id", "id", output.Number),
		Column("tube", "tube", output.Text),
		Column("state", "state", output.Text),
		Column("priority", "pri", output.Number),
		Column("delay", "delay_seconds", output.Age),
		Column("time to run", "ttr_seconds", output.Age),
		Column("age", "age_seconds", output.Age),
		Column("in its state", "state_seconds", output.Age),
		Column("time left", "left_seconds", output.Age),
		Column("reserves", "reserves_total", output.Number),
		Column("timeouts", "timeouts_total", output.Number),
		Column("releases", "releases_total", output.Number),
		Column("buries", "buries_total", output.Number),
		Column("kicks", "kicks_total", output.Number),
		Column("held by", "holder.peer", output.Text),
		Column("connection", "holder.connection", output.Text),
		Column("body bytes", "body_bytes", output.Bytes),
	},
}

// Put is a job that was put.
var Put = output.View{Name: "id", Columns: []output.Column{Column("id", "id", output.Number)}}

// Puts are several of them.
var Puts = output.View{Rows: "jobs", Name: "id", Columns: []output.Column{Column("ID", "id", output.Number)}}
