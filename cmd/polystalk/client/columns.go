package client

import "strings"

// The views of documents. They are not in tags of codec/admin's structs, because lists and single
// documents show the same members in different orders and under different names. A test checks that
// every path is a member of those structs.

// columns reads columns from a list separated by commas: each has its head and its path. The name
// of a member sets its kind; # before a path sets Number.
func columns(list string) (all []Column) {
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		at := strings.LastIndexByte(item, ' ')
		path, number := strings.CutPrefix(item[at+1:], "#")
		c := Column{Head: item[:at], Path: path, As: KindOf(path)}
		if number {
			c.As = Number
		}
		all = append(all, c)
	}
	return all
}

// kinds are the kinds of members by the suffixes that the API gives to names.
var kinds = []struct {
	suffix string
	as     kind
}{
	{"_seconds", Age}, {"_bytes", Bytes}, {"_bytes_total", Bytes}, {"_per_second", Rate},
	{"time", Moment}, {"began", Moment}, {"ended", Moment}, {"_not_after", Moment},
}

// KindOf returns the kind of a member by its name.
func KindOf(path string) kind {
	switch path {
	case "body":
		return body
	case "kind":
		return role
	case "room_bytes":
		return free
	}
	for _, k := range kinds {
		if strings.HasSuffix(path, k.suffix) {
			return k.as
		}
	}
	return Text
}

func list(rows, name, empty, table, wide string) View {
	v := document(name, table, wide)
	v.Rows, v.Empty = rows, empty
	return v
}

func document(name, table, wide string) View {
	v := View{Name: name, Columns: columns(table)}
	if wide != "" {
		v.Wide = columns(wide)
	}
	return v
}

// The views of single documents.
var (
	ServerView = document("hostname",
		`version version, state state, draining draining, uptime uptime_seconds, tubes tubes, ready jobs.ready, urgent jobs.urgent,
		delayed jobs.delayed, reserved jobs.reserved, buried jobs.buried, jobs so far jobs_total, timeouts job_timeouts_total,
		connections connections.open, limit connections.limit, producers connections.producers, workers connections.workers,
		waiting connections.waiting`,
		`hostname hostname, pid pid, go go_version, loops loops, shards shards, largest body max_job_size_bytes,
		memory mapped memory_mapped_bytes`)
	TubeView = document("name",
		`tube name, path path, ready jobs.ready, urgent jobs.urgent, delayed jobs.delayed, reserved jobs.reserved,
		buried jobs.buried, oldest ready oldest_ready_seconds, body bytes job_body_bytes, put/s rates.put_per_second,
		reserve/s rates.reserve_per_second, delete/s rates.delete_per_second, wait p50 wait.p50_seconds,
		wait p99 wait.p99_seconds, run p50 run.p50_seconds, run p99 run.p99_seconds, using using, watching watching,
		waiting waiting, paused for pause_left_seconds`,
		`jobs so far jobs_total, deletes deletes_total, pauses pauses_total, pause pause_seconds,
		timeout/s rates.timeout_per_second, events events_total`)
	JobView = document("id",
		`id id, tube tube, state state, priority pri, delay delay_seconds, time to run ttr_seconds, age age_seconds,
		in its state state_seconds, time left left_seconds, reserves reserves_total, timeouts timeouts_total,
		releases releases_total, buries buries_total, kicks kicks_total, held by holder.peer,
		connection holder.connection, body bytes body_bytes`, "")
	PutView    = document("id", "id id", "")
	HealthView = document("",
		"status status, state state, notes notes, journal read progress.read_bytes, of progress.all_bytes", "checks checks")
	DrainView    = document("", "draining draining", "")
	ReloadView   = document("", "applied applied, needs a restart restart", "")
	LogLevelView = document("level", "level level", "")
	TokenView    = document("token", "token token, line line", "")
)

// The views of lists.
var (
	TubesView = list("tubes", "name", "",
		`TUBE name, READY #jobs.ready, DELAYED #jobs.delayed, RESERVED #jobs.reserved, BURIED #jobs.buried,
		OLDEST oldest_ready_seconds, PUT/S rates.put_per_second, DELETE/S rates.delete_per_second, WAITING #waiting,
		PAUSED pause_left_seconds`,
		`URGENT #jobs.urgent, BYTES job_body_bytes, USING #using, WATCHING #watching, RESERVE/S rates.reserve_per_second,
		TIMEOUT/S rates.timeout_per_second, WAIT-P50 wait.p50_seconds, WAIT-P99 wait.p99_seconds,
		RUN-P50 run.p50_seconds, RUN-P99 run.p99_seconds, JOBS #jobs_total, DELETES #deletes_total`)
	JobsView = list("jobs", "id", "",
		`ID #id, TUBE tube, STATE state, PRI #pri, AGE age_seconds, LEFT left_seconds, TTR ttr_seconds, BYTES body_bytes, BODY body`,
		`DELAY delay_seconds, IN-STATE state_seconds, RESERVES #reserves_total, TIMEOUTS #timeouts_total,
		RELEASES #releases_total, BURIES #buries_total, KICKS #kicks_total, HOLDER holder.peer`)
	PutsView        = list("jobs", "id", "", "ID #id", "")
	TransfersView   = list("jobs", "id", "", "ID #id, FROM #from, TUBE tube", "")
	ConnectionsView = list("connections", "id", "there are no such connections",
		`ID #id, PEER peer, PROTOCOL protocol, STATE state, OPEN open_seconds, HOLDS #holding, FOR hold_seconds,
		USES used_tube.name, WATCHES watched_tubes.name, LAST last_command, AGO last_command_seconds`,
		`CLIENT client_id, WAITS wait_seconds, PRODUCER producer, WORKER worker, STOPPED-BY stopped_by,
		RECEIVED received_bytes_total, SENT sent_bytes_total, HELD held_bytes, UNSENT unsent_bytes`)
	OperationsView = list("operations", "id", "no bulk operation was started since the server was started",
		`ID #id, ACTION action, DRY dry_run, STATE state, BEGAN began, TUBE asked.select.tube|asked.select.tube_path,
		LOOKED-AT #looked_at, OF #to_look_at, MATCHED #matched, DONE #done, BY name`,
		"ENDED ended, SELECT asked.select, SKIPPED skipped, PROBLEM problem.detail")
	AuditView = list("entries", "number", "nothing was changed by HTTP since the server was started",
		`TIME time, WHO name, ROLE role, CLIENT client, STATUS #status, AFFECTED #affected, ACTION action, PATH path,
		DETAIL detail`, "NUMBER #number, REQUEST request_id")
	ClusterView = list("members", "name", "",
		"NAME name, ROLE kind, LAG lag_seconds, LAST-SEEN heard_seconds, DISK-FREE room_bytes, ERROR trouble",
		`ADDRESS address, ID id, CONNECTED connected, LAG-ENTRIES #lag_entries, LAST-ENTRY #match_index,
		CATCH-UP fetching.sent_bytes, OF fetching.all_bytes, CLOCK-AHEAD #clock_ahead_seconds,
		CERTIFICATE-UNTIL certificate_not_after, SENT sent_bytes_total, RECEIVED received_bytes_total,
		DROPPED #dropped_messages_total`)
)
