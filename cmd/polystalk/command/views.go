package command

import (
	"polystalk/cmd/polystalk/output"
)

var serverView = output.View{
	Name: "hostname",
	Columns: []output.Column{
		column("version", "version", output.Text),
		column("state", "state", output.Text),
		column("draining", "draining", output.Text),
		column("uptime", "uptime_seconds", output.Age),
		column("tubes", "tubes", output.Number),
		column("ready", "jobs.ready", output.Number),
		column("urgent", "jobs.urgent", output.Number),
		column("delayed", "jobs.delayed", output.Number),
		column("reserved", "jobs.reserved", output.Number),
		column("buried", "jobs.buried", output.Number),
		column("jobs so far", "jobs_total", output.Number),
		column("timeouts", "job_timeouts_total", output.Number),
		column("connections", "connections.open", output.Number),
		column("limit", "connections.limit", output.Number),
		column("producers", "connections.producers", output.Number),
		column("workers", "connections.workers", output.Number),
		column("waiting", "connections.waiting", output.Number),
	},
	Wide: []output.Column{
		column("hostname", "hostname", output.Text),
		column("pid", "pid", output.Number),
		column("go", "go_version", output.Text),
		column("loops", "loops", output.Number),
		column("shards", "shards", output.Number),
		column("largest body", "max_job_size_bytes", output.Bytes),
		column("memory mapped", "memory_mapped_bytes", output.Bytes),
	},
}

var tubeColumns = []output.Column{
	column("TUBE", "name", output.Text),
	column("READY", "jobs.ready", output.Number),
	column("DELAYED", "jobs.delayed", output.Number),
	column("RESERVED", "jobs.reserved", output.Number),
	column("BURIED", "jobs.buried", output.Number),
	column("OLDEST", "oldest_ready_seconds", output.Age),
	column("PUT/S", "rates.put_per_second", output.Rate),
	column("DELETE/S", "rates.delete_per_second", output.Rate),
	column("WAITING", "waiting", output.Number),
	column("PAUSED", "pause_left_seconds", output.Age),
}

var tubeWide = []output.Column{
	column("URGENT", "jobs.urgent", output.Number),
	column("BYTES", "job_body_bytes", output.Bytes),
	column("USING", "using", output.Number),
	column("WATCHING", "watching", output.Number),
	column("RESERVE/S", "rates.reserve_per_second", output.Rate),
	column("TIMEOUT/S", "rates.timeout_per_second", output.Rate),
	column("WAIT-P50", "wait.p50_seconds", output.Age),
	column("WAIT-P99", "wait.p99_seconds", output.Age),
	column("RUN-P50", "run.p50_seconds", output.Age),
	column("RUN-P99", "run.p99_seconds", output.Age),
	column("JOBS", "jobs_total", output.Number),
	column("DELETES", "deletes_total", output.Number),
}

var tubesView = output.View{Rows: "tubes", Name: "name", Columns: tubeColumns, Wide: tubeWide}

var tubeView = output.View{
	Name: "name",
	Columns: []output.Column{
		column("tube", "name", output.Text),
		column("path", "path", output.Text),
		column("ready", "jobs.ready", output.Number),
		column("urgent", "jobs.urgent", output.Number),
		column("delayed", "jobs.delayed", output.Number),
		column("reserved", "jobs.reserved", output.Number),
		column("buried", "jobs.buried", output.Number),
		column("oldest ready", "oldest_ready_seconds", output.Age),
		column("body bytes", "job_body_bytes", output.Bytes),
		column("put/s", "rates.put_per_second", output.Rate),
		column("reserve/s", "rates.reserve_per_second", output.Rate),
		column("delete/s", "rates.delete_per_second", output.Rate),
		column("wait p50", "wait.p50_seconds", output.Age),
		column("wait p99", "wait.p99_seconds", output.Age),
		column("run p50", "run.p50_seconds", output.Age),
		column("run p99", "run.p99_seconds", output.Age),
		column("using", "using", output.Number),
		column("watching", "watching", output.Number),
		column("waiting", "waiting", output.Number),
		column("paused for", "pause_left_seconds", output.Age),
	},
	Wide: []output.Column{
		column("jobs so far", "jobs_total", output.Number),
		column("deletes", "deletes_total", output.Number),
		column("pauses", "pauses_total", output.Number),
		column("pause", "pause_seconds", output.Age),
		column("timeout/s", "rates.timeout_per_second", output.Rate),
		column("events", "events_total", output.Text),
	},
}

var jobsView = output.View{
	Rows: "jobs", Name: "id",
	Columns: []output.Column{
		column("ID", "id", output.Number),
		column("TUBE", "tube", output.Text),
		column("STATE", "state", output.Text),
		column("PRI", "pri", output.Number),
		column("AGE", "age_seconds", output.Age),
		column("LEFT", "left_seconds", output.Age),
		column("TTR", "ttr_seconds", output.Age),
		column("BYTES", "body_bytes", output.Bytes),
		column("BODY", "body", output.Body),
	},
	Wide: []output.Column{
		column("DELAY", "delay_seconds", output.Age),
		column("IN-STATE", "state_seconds", output.Age),
		column("RESERVES", "reserves_total", output.Number),
		column("TIMEOUTS", "timeouts_total", output.Number),
		column("RELEASES", "releases_total", output.Number),
		column("BURIES", "buries_total", output.Number),
		column("KICKS", "kicks_total", output.Number),
		column("HOLDER", "holder.peer", output.Text),
	},
}

var jobView = output.View{
	Name: "id",
	Columns: []output.Column{
		column("id", "id", output.Number),
		column("tube", "tube", output.Text),
		column("state", "state", output.Text),
		column("priority", "pri", output.Number),
		column("delay", "delay_seconds", output.Age),
		column("time to run", "ttr_seconds", output.Age),
		column("age", "age_seconds", output.Age),
		column("in its state", "state_seconds", output.Age),
		column("time left", "left_seconds", output.Age),
		column("reserves", "reserves_total", output.Number),
		column("timeouts", "timeouts_total", output.Number),
		column("releases", "releases_total", output.Number),
		column("buries", "buries_total", output.Number),
		column("kicks", "kicks_total", output.Number),
		column("held by", "holder.peer", output.Text),
		column("connection", "holder.connection", output.Text),
		column("body bytes", "body_bytes", output.Bytes),
	},
}

func column(head, path string, as output.Kind) output.Column {
	return output.Column{Head: head, Path: path, As: as}
}
