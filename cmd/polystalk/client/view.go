package client

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"polystalk/cmd/internal/program"

	"github.com/charmbracelet/x/ansi"
)

// A View describes how to show a document.
type View struct {
	Rows    string   // the member with the rows; empty: the document is the only row
	Columns []Column // of -o table
	Wide    []Column // additional ones of -o wide
	Spare   []string // columns of -o table that a narrow terminal does not show; the first one goes first
	Name    string   // the member that -o name shows
	Empty   string   // the message about a table without rows
}

// A Column shows a member of each row.
type Column struct {
	Head string
	// Path has member names separated by dots, or several such paths separated by |. The first path
	// that the row has counts.
	Path string
	As   kind
}

// A kind is the way to show a member.
type kind int

// The kinds of members.
const (
	Text    kind = iota // unchanged
	Number              // unchanged, aligned to the right
	Bytes               // 12.3 kB
	Age                 // a duration in seconds: 3m12s
	Rate                // a number per second
	Moment              // a time: 2026-01-02 15:04:05
	body                // the member body or body_base64 of a job
	role                // leader, or the member kind of a server
	free                // Bytes, and whether the disk is full
	rules               // Text, and whether it is not the leader's
	options             // the options of a policy, its note is one
)

// Pad fills a cell of a column with spaces: numbers are on the right.
func (c Column) Pad(cell string, width int) string {
	space := strings.Repeat(" ", max(0, width-ansi.StringWidthWc(cell)))
	switch c.As {
	case Text, Moment, body, role, free, rules, options:
		return cell + space
	}
	return space + cell
}

// Missing stands for a value that the server does not report.
const Missing = "-"

// Decode decodes a document. Numbers keep their digits.
func Decode(document []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}

// At returns the member at a path; nil: none. For a list it returns the members of the elements.
func At(v any, path string) any {
	if first, rest, several := strings.Cut(path, "|"); several {
		if found := At(v, first); found != nil {
			return found
		}
		return At(v, rest)
	}
	name, rest, deeper := strings.Cut(path, ".")
	object, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	v = object[name]
	list, isList := v.([]any)
	switch {
	case !deeper:
		return v
	case !isList:
		return At(v, rest)
	}
	members := make([]any, 0, len(list))
	for _, e := range list {
		if m := At(e, rest); m != nil {
			members = append(members, m)
		}
	}
	return members
}

// Cell returns the text of a column in a form that is safe on a terminal.
func (c Column) Cell(row any) string {
	switch c.As {
	case body:
		return bodyCell(row)
	case role:
		if leads, _ := At(row, "leads").(bool); leads {
			return "leader"
		}
	case options:
		policy, _ := row.(map[string]any)
		return program.Safe(OptionsOf(policy))
	case free:
		cell := Column{Path: c.Path, As: Bytes}.Cell(row)
		if full, _ := At(row, "disk_full").(bool); full {
			cell += " (full)"
		}
		return cell
	}
	switch v := At(row, c.Path).(type) {
	case nil:
		return Missing
	case string:
		if c.As == rules && At(row, "access_differs") == true {
			v += " (differs)"
		}
		if c.As == Moment {
			if t, err := time.Parse(time.RFC3339Nano, v); err == nil {
				return t.Local().Format(time.DateTime)
			}
		}
		if v == "" {
			return Missing
		}
		return program.Safe(v)
	case json.Number:
		n, err := v.Float64()
		if err != nil {
			return program.Safe(v.String())
		}
		switch c.As {
		case Bytes:
			return formatBytes(n)
		case Age:
			return FormatAge(n)
		case Rate:
			return strconv.FormatFloat(n, 'f', 1, 64)
		}
		return v.String()
	case bool:
		if v {
			return "yes"
		}
		return "no"
	case []any:
		var all []string
		for _, e := range v {
			text, isText := e.(string)
			if !isText {
				b, _ := json.Marshal(e) // it was read as JSON
				text = string(b)
			}
			all = append(all, text)
		}
		if len(all) == 0 {
			return Missing
		}
		return program.Safe(strings.Join(all, ","))
	case map[string]any:
		b, _ := json.Marshal(v) // it was read as JSON
		return program.Safe(string(b))
	}
	return Missing
}

// alarms are the members that need attention, by their paths in a Column.
var alarms = map[string]func(row any) bool{
	"jobs.buried":        func(row any) bool { return positive(row, "jobs.buried") },
	"jobs.ready":         func(row any) bool { return positive(row, "jobs.ready") && At(row, "watching") == json.Number("0") },
	"pause_left_seconds": func(row any) bool { return positive(row, "pause_left_seconds") },
	"draining":           func(row any) bool { return At(row, "draining") == true },
	"room_bytes":         func(row any) bool { return At(row, "disk_full") == true },
	"access_digest":      func(row any) bool { return At(row, "access_differs") == true },
	"trouble":            func(row any) bool { return At(row, "trouble") != nil },
	"connected":          func(row any) bool { return At(row, "connected") == false },
	"status":             func(row any) bool { return At(row, "status") == "fail" },
	"problem.detail":     func(row any) bool { return At(row, "problem.detail") != nil },
}

func positive(row any, path string) bool {
	n, _ := At(row, path).(json.Number)
	f, _ := n.Float64()
	return f > 0
}

// Styles of a terminal: the colour of a cell that needs attention, and the end of it.
const (
	attention = "\x1b[1;31m"
	plain     = "\x1b[0m"
)

// coloured returns the text of a cell, in a colour if it needs attention.
func (c Column) coloured(row any) string {
	cell := c.Cell(row)
	if needs := alarms[c.Path]; needs != nil && cell != Missing && needs(row) {
		return attention + cell + plain
	}
	return cell
}

// bodyCellMax is the number of characters of a body in a table: with other columns, about a line.
const bodyCellMax = 60

// bodyCell returns the beginning of the body of a job.
func bodyCell(row any) string {
	text, ok := At(row, "body").(string)
	if coded, isCoded := At(row, "body_base64").(string); isCoded {
		b, err := base64.StdEncoding.DecodeString(coded)
		if err != nil {
			return Missing
		}
		text, ok = string(b), true
	}
	if !ok {
		return Missing
	}
	truncated, _ := At(row, "body_truncated").(bool)
	shown := []rune(program.Safe(text))
	if len(shown) > bodyCellMax {
		shown, truncated = shown[:bodyCellMax], true
	}
	if truncated {
		shown = append(shown, '…')
	}
	return string(shown)
}

// formatBytes returns a size with a unit, such as 12.3 kB.
func formatBytes(n float64) string {
	units := []string{"B", "kB", "MB", "GB", "TB", "PB", "EB"}
	i := 0
	for n >= 999.95 && i < len(units)-1 {
		n /= 1000
		i++
	}
	if i == 0 {
		return strconv.FormatFloat(n, 'f', -1, 64) + " B"
	}
	return strconv.FormatFloat(n, 'f', 1, 64) + " " + units[i]
}

// FormatAge returns a duration in seconds in its two largest units.
func FormatAge(seconds float64) string {
	if seconds < 0 || math.IsNaN(seconds) || seconds > math.MaxInt64/2 {
		return Missing
	}
	switch s := int64(seconds); {
	case seconds == 0:
		return "0s"
	case seconds < 1:
		return strconv.FormatFloat(seconds*1000, 'f', 0, 64) + "ms"
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
	default:
		return fmt.Sprintf("%dd%02dh", s/86400, s/3600%24)
	}
}

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
	case "first", "last":
		return Moment
	case "kind":
		return role
	case "room_bytes":
		return free
	case "access_digest":
		return rules
	case "note":
		return options
	}
	for _, k := range kinds {
		if strings.HasSuffix(path, k.suffix) {
			return k.as
		}
	}
	return Text
}

func list(rows, name, empty, table, wide string, spare ...string) View {
	v := document(name, table, wide)
	v.Rows, v.Empty, v.Spare = rows, empty, spare
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
		waiting waiting, paused for pause_left_seconds, policy policy, held by held_by`,
		`jobs so far jobs_total, deletes deletes_total, pauses pauses_total, pause pause_seconds,
		timeout/s rates.timeout_per_second, events events_total, by its policy policy_events_total`)
	JobView = document("id",
		`id id, tube tube, state state, priority pri, delay delay_seconds, time to run ttr_seconds, age age_seconds,
		in its state state_seconds, time left left_seconds, reserves reserves_total, timeouts timeouts_total,
		releases releases_total, buries buries_total, kicks kicks_total, buried by buried_by, held by holder.peer,
		connection holder.connection, body bytes body_bytes`, "")
	PutView    = document("id", "id id", "")
	HealthView = document("",
		"status status, state state, notes notes, journal read progress.read_bytes, of progress.all_bytes", "checks checks")
	DrainView    = document("", "draining draining", "")
	ReloadView   = document("", "applied applied, needs a restart restart, closed connections closed", "")
	LogLevelView = document("level", "level level", "")
	TokenView    = document("token", "token token", "")
	RotateView   = document("token", "token token, line line, text text", "")
	SessionView  = document("name",
		"name name, role role, known by method, server server, bodies bodies, verbs verbs, on every tube every_tube", "")
	IdentityView = document("name",
		`name name, role role, server server, rules rules, tokens credentials.token, certificates credentials.certificate,
		users credentials.user, networks credentials.network`, "")
	PolicyView = document("match", "match match, options note, tubes tubes, warning warning",
		"would expire effect.expired, would be dropped effect.dropped, and more effect.partial")
	TubePolicyView = document("match", "tube tube, policy match, because because, options note, tubes tubes, warning warning", "")

	VerbView = document("verb", "verb verb, permitted permitted, because because", "")
)

// The views of lists.
var (
	TubesView = list("tubes", "name", "",
		`TUBE name, READY #jobs.ready, DELAYED #jobs.delayed, RESERVED #jobs.reserved, BURIED #jobs.buried,
		OLDEST oldest_ready_seconds, PUT/S rates.put_per_second, DELETE/S rates.delete_per_second, WAITING #waiting,
		PAUSED pause_left_seconds, HELD-BY held_by`,
		`URGENT #jobs.urgent, BYTES job_body_bytes, USING #using, WATCHING #watching, RESERVE/S rates.reserve_per_second,
		TIMEOUT/S rates.timeout_per_second, WAIT-P50 wait.p50_seconds, WAIT-P99 wait.p99_seconds,
		RUN-P50 run.p50_seconds, RUN-P99 run.p99_seconds, JOBS #jobs_total, DELETES #deletes_total,
		POLICY policy`, "HELD-BY", "DELETE/S", "PUT/S", "WAITING")
	JobsView = list("jobs", "id", "",
		`ID #id, TUBE tube, STATE state, PRI #pri, AGE age_seconds, LEFT left_seconds, TTR ttr_seconds, BYTES body_bytes, BODY body`,
		`DELAY delay_seconds, IN-STATE state_seconds, RESERVES #reserves_total, TIMEOUTS #timeouts_total,
		RELEASES #releases_total, BURIES #buries_total, KICKS #kicks_total, BURIED-BY buried_by, HOLDER holder.peer`)
	PutsView        = list("jobs", "id", "", "ID #id", "")
	TransfersView   = list("jobs", "id", "", "ID #id, FROM #from, TUBE tube", "")
	ConnectionsView = list("connections", "id", "there are no such connections",
		`ID #id, PEER peer, PROTOCOL protocol, STATE state, OPEN open_seconds, HOLDS #holding, FOR hold_seconds,
		USES used_tube.name, WATCHES watched_tubes.name, LAST last_command, AGO last_command_seconds`,
		`TLS tls, CLIENT client_id, WAITS wait_seconds, PRODUCER producer, WORKER worker, STOPPED-BY stopped_by,
		RECEIVED received_bytes_total, SENT sent_bytes_total, HELD held_bytes, UNSENT unsent_bytes`, "PROTOCOL", "AGO", "LAST", "OPEN")
	OperationsView = list("operations", "id", "no bulk operation was started since the server was started",
		`ID #id, ACTION action, DRY dry_run, STATE state, BEGAN began, TUBE asked.select.tube|asked.select.tube_path,
		LOOKED-AT #looked_at, OF #to_look_at, MATCHED #matched, DONE #done, BY name`,
		"ENDED ended, SELECT asked.select, SKIPPED skipped, PROBLEM problem.detail", "LOOKED-AT", "OF", "BEGAN")
	AuditView = list("entries", "number", "nothing was changed by HTTP since the server was started",
		`TIME time, WHO name, ROLE role, CLIENT client, STATUS #status, AFFECTED #affected, ACTION action, PATH path,
		DETAIL detail`, "NUMBER #number, REQUEST request_id", "ROLE", "AFFECTED", "CLIENT")
	IdentitiesView = list("identities", "name", "",
		`NAME name, ROLE role, SERVER server, TOKENS #credentials.token, CERTIFICATES #credentials.certificate,
		USERS #credentials.user, NETWORKS #credentials.network, RULES rules`, "", "CERTIFICATES", "USERS", "NETWORKS")
	PoliciesView = list("policies", "match", "there are no policies", "MATCH match, TUBES #tubes, OPTIONS note",
		"EXPIRED #effect.expired, DROPPED #effect.dropped, AND-MORE effect.partial, WARNING warning")
	ExplainView = list("verbs", "verb", "", "VERB verb, PERMITTED permitted, BECAUSE because", "")
	DenialsView = list("denials", "identity", "nothing was refused since the server was started",
		"LAST last, COUNT #count, IDENTITY identity, VERB verb, TUBE tube, PEER peer", "FIRST first")
	ClusterView = list("members", "name", "",
		"NAME name, ROLE kind, LAG lag_seconds, LAST-SEEN heard_seconds, DISK-FREE room_bytes, ERROR trouble",
		`ADDRESS address, ID id, CONNECTED connected, ACCESS access_digest, LAG-ENTRIES #lag_entries, LAST-ENTRY #match_index,
		CATCH-UP fetching.sent_bytes, OF fetching.all_bytes, CLOCK-AHEAD #clock_ahead_seconds,
		CERTIFICATE-UNTIL certificate_not_after, SENT sent_bytes_total, RECEIVED received_bytes_total,
		DROPPED #dropped_messages_total`)
)
