package cli

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"polystalk/cmd/internal/program"
	"polystalk/cmd/polystalk/client"
	"polystalk/codec/admin"
)

const checkName = "check"

// A level is the result of a check and a plugin's exit code. Source: Monitoring Plugins
// Development Guidelines, "Plugin Return Codes".
type level int

const (
	levelOK level = iota
	levelWarning
	levelCritical
	levelUnknown
)

func (l level) String() string {
	return []string{"OK", "WARNING", "CRITICAL", "UNKNOWN"}[l]
}

// A figure is a number that check compares with a threshold.
type figure struct {
	flag string
	unit string // of performance data
	few  bool   // a small number is bad, not a large one
	read func(flag, text string) (float64, error)
	help string
}

var figures = []figure{
	{flag: "ready", read: readCount, help: "ready jobs"},
	{flag: "delayed", read: readCount, help: "delayed jobs"},
	{flag: "reserved", read: readCount, help: "reserved jobs"},
	{flag: "buried", read: readCount, help: "buried jobs"},
	{flag: "oldest", read: readAge, unit: "s", help: "age of the oldest ready job of a tube, such as 60s:5m; polystalkd only"},
	{flag: "workers", read: readCount, few: true, help: "clients that watch the tube, or workers of the server; too few if below the threshold"},
	{flag: "connections", read: readCount, help: "connections of the server"},
}

func readCount(flag, text string) (float64, error) {
	n, err := strconv.ParseUint(text, 10, 53)
	if err != nil {
		return 0, client.Errorf(client.Usage, "%s: %q is not a number: give WARN:CRIT, such as 1000:10000", flag, text)
	}
	return float64(n), nil
}

func readAge(flag, text string) (float64, error) {
	n, err := readSeconds(flag, text)
	return float64(n), err
}

// A threshold has the values from which a figure is a warning, and critical. NaN means none: no
// figure reaches it.
type threshold [2]float64

var noThreshold = threshold{math.NaN(), math.NaN()}

// threshold reads WARN:CRIT; either number may be missing.
func (f figure) threshold(text string) (t threshold, err error) {
	warn, crit, _ := strings.Cut(text, ":")
	if warn == "" && crit == "" {
		return t, client.Errorf(client.Usage, "--%s %q has no number: give WARN:CRIT, WARN or :CRIT", f.flag, text)
	}
	t = noThreshold
	for i, number := range []string{warn, crit} {
		if number != "" {
			if t[i], err = f.read("--"+f.flag, number); err != nil {
				return t, err
			}
		}
	}
	if f.few && t[0] < t[1] || !f.few && t[0] > t[1] {
		return t, client.Errorf(client.Usage, "--%s %q is critical before it is a warning: swap the numbers", f.flag, text)
	}
	return t, nil
}

// level returns the level of a value.
func (f figure) level(v float64, t threshold) level {
	for i, l := range []level{levelCritical, levelWarning} {
		if limit := t[1-i]; f.few && v < limit || !f.few && v >= limit {
			return l
		}
	}
	return levelOK
}

// ranges returns a threshold as the two ranges that performance data has. Source: Monitoring
// Plugins Development Guidelines, "Threshold and Ranges": "10:" alerts below 10, and "@10:" from
// 10 on.
func (f figure) ranges(t threshold) string {
	var both [2]string
	for i, limit := range t {
		if !math.IsNaN(limit) {
			both[i] = plainNumber(limit) + ":"
			if !f.few {
				both[i] = "@" + both[i]
			}
		}
	}
	return both[0] + ";" + both[1]
}

func plainNumber(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// A levelError ends a check that has already written its line.
type levelError struct{ level level }

func (e *levelError) Error() string { return "the check ends with " + e.level.String() }

// A verdict is the result of a check so far.
type verdict struct {
	level   level
	reasons []string
	data    []string
}

func (v *verdict) add(l level, reason string) {
	v.level = max(v.level, l)
	if l != levelOK {
		reason += " (" + strings.ToLower(l.String()) + ")"
	}
	v.reasons = append(v.reasons, reason)
}

func (a *App) checkVerb() verb {
	var (
		tube    string
		journal bool
		cluster bool
		limits  = make(map[string]*string)
	)
	return verb{
		use: checkName, short: "compare figures with thresholds, as a plugin of Nagios, Icinga or Zabbix",
		long: `Writes one line with performance data, and exits with 0 (OK), 1 (warning), 2 (critical)
or 3 (unknown). A threshold is WARN:CRIT, WARN or :CRIT; it is reached at that value. A
tube that does not exist has no jobs and no workers. A server that cannot be reached is
critical; a wrong command line, or a missing token, is unknown.`,
		examples: "polystalk check --tube mail --ready 1000:10000 --oldest 60s:5m --workers 1:\npolystalk check --journal --connections 5000:9000",
		flags: func(fs *pflag.FlagSet) {
			fs.StringVar(&tube, "tube", "", "check this tube; without it, the server")
			a.pathFlag(fs)
			for _, f := range figures {
				limits[f.flag] = fs.String(f.flag, "", f.help)
			}
			fs.BoolVar(&journal, "journal", false, "check the journal: a warning while the disk is behind, critical when it is full; polystalkd only")
			fs.BoolVar(&cluster, "cluster", false, "check the cluster: critical without a leader, a warning if a server is not connected or has another access file than the leader")
		},
		do: func(r *run) (err error) {
			set := make(map[string]threshold)
			for _, f := range figures {
				if r.changed(f.flag) {
					if set[f.flag], err = f.threshold(*limits[f.flag]); err != nil {
						return err
					}
				}
			}
			name, about := "", "server"
			if r.changed("tube") {
				if name, err = r.tubeName(tube); err != nil {
					return err
				}
				about = "tube " + admin.ShownName(name)
			}
			v := new(verdict)
			if err := r.checkFigures(v, name, set); err != nil {
				return err
			}
			if journal {
				if err := r.checkJournal(v); err != nil {
					return err
				}
			}
			if cluster {
				if err := r.checkCluster(v); err != nil {
					return err
				}
			}
			fmt.Fprintf(r.out, "POLYSTALK %s - %s: %s | %s\n", v.level, onePart(about), onePart(strings.Join(v.reasons, ", ")), strings.Join(v.data, " "))
			if v.level == levelOK {
				return nil
			}
			return &levelError{v.level}
		},
	}
}

// checkFigures checks the figures of a tube; an empty name means the server.
func (r *run) checkFigures(v *verdict, tube string, set map[string]threshold) error {
	values, err := r.figures(tube)
	if err != nil {
		return err
	}
	for _, f := range figures {
		t, wanted := set[f.flag]
		if !wanted {
			t = noThreshold
		}
		n, told := values[f.flag]
		switch {
		case told:
			v.data = append(v.data, fmt.Sprintf("%s=%s%s;%s;0;", f.flag, plainNumber(n), f.unit, f.ranges(t)))
		case wanted && f.flag == "connections":
			return client.Errorf(client.Usage, "--connections belongs to the server: leave --tube out")
		case wanted && tube == "":
			return client.Errorf(client.Usage, "--%s belongs to a tube: name one by --tube", f.flag)
		case wanted:
			return client.Unsupported("report --" + f.flag + " of a tube")
		}
		if wanted {
			shown := plainNumber(n)
			if f.unit == "s" {
				shown = client.FormatAge(n)
			}
			v.add(f.level(n, t), shown+" "+f.flag)
		}
	}
	if len(set) == 0 {
		v.add(levelOK, fmt.Sprintf("%.0f ready, %.0f delayed, %.0f reserved, %.0f buried", values["ready"], values["delayed"], values["reserved"], values["buried"]))
	}
	return nil
}

// figures returns the server's figures of a tube; an empty name means the server itself.
func (r *run) figures(tube string) (map[string]float64, error) {
	var v struct {
		Jobs        *admin.Counts
		Watching    float64
		Oldest      *float64 `json:"oldest_ready_seconds"`
		Connections admin.Connections
	}
	_, err := r.read(tubeOrServer(tube), tube, &v)
	switch {
	case err == nil && v.Jobs == nil:
		err = client.Read(nil, &v) // without the member, all numbers would be 0
	case tube != "" && client.ExitCode(err) == client.Nothing:
		v.Jobs, err = new(admin.Counts), nil
		if r.server.HasAPI() {
			v.Oldest = new(float64)
		}
	}
	if err != nil {
		return nil, err
	}
	values := map[string]float64{
		"ready": float64(v.Jobs.Ready), "delayed": float64(v.Jobs.Delayed), "reserved": float64(v.Jobs.Reserved), "buried": float64(v.Jobs.Buried), "workers": v.Watching,
	}
	if tube == "" {
		values["workers"], values["connections"] = float64(v.Connections.Workers), float64(v.Connections.Open)
	}
	if v.Oldest != nil {
		values["oldest"] = *v.Oldest
	}
	return values, nil
}

// checkJournal checks whether the server accepts changes and makes them durable.
func (r *run) checkJournal(v *verdict) error {
	if !r.server.HasAPI() {
		return client.Unsupported("report the state of the journal")
	}
	var j admin.Journal
	if _, err := r.read("/journal", "", &j); err != nil {
		return err
	}
	v.data = append(v.data, fmt.Sprintf("journal=%dB;;;0;", j.Bytes))
	switch {
	case !j.Enabled:
		v.add(levelWarning, "no journal: jobs are lost when the server ends")
	case j.Pressure == "open":
		v.add(levelOK, "journal open")
	case j.Pressure == "wait":
		v.add(levelWarning, "the disk of the journal is behind")
	default:
		v.add(levelCritical, "journal "+j.Pressure)
	}
	return nil
}

// checkCluster checks the servers of the cluster.
func (r *run) checkCluster(v *verdict) error {
	if !r.server.HasAPI() {
		return client.Unsupported("report the state of a cluster")
	}
	var k admin.Cluster
	if _, err := r.read("/cluster", "", &k); err != nil {
		return err
	}
	if k.Leader == nil {
		v.add(levelCritical, "no server leads")
		return nil
	}
	v.add(levelOK, *k.Leader+" leads")
	for i := range k.Members {
		m := &k.Members[i]
		if !m.Connected {
			v.add(levelWarning, m.Name+" is not connected to "+k.Node)
		}
		if m.AccessDiffers {
			v.add(levelWarning, m.Name+" has other rules in its access file than "+*k.Leader)
		}
	}
	return nil
}

// onePart replaces bars in a text, because a bar begins the performance data.
func onePart(s string) string { return strings.ReplaceAll(program.Safe(s), "|", "/") }

// checked returns the exit code of a check that ended with err. It writes the check's line if
// there is none yet. If the line cannot be written, the result is unknown.
func (a *App) checked(err error) int {
	l := levelOK
	if e, ok := err.(*levelError); ok {
		l = e.level
	} else if err != nil {
		l = levelUnknown
		if client.ExitCode(err) == client.System {
			l = levelCritical
		}
		line := err.Error()
		if e, ok := errors.AsType[*client.Error](err); ok {
			line = e.Line // without the request's id, so the same error gives the same line
		}
		fmt.Fprintf(a.out, "POLYSTALK %s - %s\n", l, onePart(line))
	}
	if err := a.out.Flush(); err != nil {
		fmt.Fprintf(a.Err, "polystalk: writing the output: %v\n", err)
		return int(levelUnknown)
	}
	return int(l)
}
