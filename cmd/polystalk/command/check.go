package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"polystalk/cmd/internal/terminal"
	"polystalk/cmd/polystalk/api"
	"polystalk/cmd/polystalk/fault"
	"polystalk/cmd/polystalk/nagios"
	"polystalk/cmd/polystalk/output"
	"polystalk/cmd/polystalk/queue"
	"polystalk/codec/admin"
)

const checkName = "check"

// A figure is one that check may look at.
type figure struct {
	flag  string
	unit  string // of performance data
	few   bool   // there may be too few, not too many
	read  func(flag, text string) (string, error)
	help  string
	value func(s *seen) (float64, bool) // false: the server does not tell it
}

// seen is what check looks at: a tube, or the server.
type seen struct {
	admin.Tube
	connections *float64 // open ones, of the server; nil: a tube is looked at
	workers     float64
	oldest      *float64
}

var figures = []figure{
	{flag: "ready", read: countOf, help: "ready jobs", value: func(s *seen) (float64, bool) { return float64(s.Jobs.Ready), true }},
	{flag: "delayed", read: countOf, help: "delayed jobs", value: func(s *seen) (float64, bool) { return float64(s.Jobs.Delayed), true }},
	{flag: "reserved", read: countOf, help: "reserved jobs", value: func(s *seen) (float64, bool) { return float64(s.Jobs.Reserved), true }},
	{flag: "buried", read: countOf, help: "buried jobs", value: func(s *seen) (float64, bool) { return float64(s.Jobs.Buried), true }},
	{flag: "oldest", read: spanOf, unit: "s", help: "how long the job is ready that is so for longest, such as 60s:5m; of a tube, by polystalkd alone", value: func(s *seen) (float64, bool) {
		if s.oldest == nil {
			return 0, false
		}
		return *s.oldest, true
	}},
	{flag: "workers", read: countOf, few: true, help: "clients that watch the tube, or workers of the server; a warning, or critical, below that", value: func(s *seen) (float64, bool) { return s.workers, true }},
	{flag: "connections", read: countOf, help: "connections, of the server", value: func(s *seen) (float64, bool) {
		if s.connections == nil {
			return 0, false
		}
		return *s.connections, true
	}},
}

// countOf and spanOf read the values of thresholds.
func countOf(flag, text string) (string, error) {
	n, err := strconv.ParseUint(text, 10, 53)
	if err != nil {
		return "", fault.New(fault.Usage, "%s: %q is no number: give WARN:CRIT, such as 1000:10000", flag, text)
	}
	return strconv.FormatUint(n, 10), nil
}

func spanOf(flag, text string) (string, error) {
	n, err := readSpan(flag, text)
	return strconv.FormatUint(uint64(n), 10), err
}

// A plugin ends a check with a level of its own; its line is on standard output already.
type plugin struct{ level nagios.Level }

func (p *plugin) Error() string { return "the check has come to " + p.level.String() }

// A verdict is what a check has come to so far.
type verdict struct {
	level   nagios.Level
	reasons []string
	data    []string
}

func (v *verdict) add(l nagios.Level, reason string) {
	if l > v.level {
		v.level = l
	}
	if l != nagios.OK {
		reason += " (" + strings.ToLower(l.String()) + ")"
	}
	v.reasons = append(v.reasons, reason)
}

func (a *App) checkCommand() *cobra.Command {
	var (
		names   tubeName
		tube    string
		journal bool
		limits  = make(map[string]*string)
	)
	c := &cobra.Command{
		Use: checkName, Short: "look at figures as a plugin of Nagios, Icinga or Zabbix does", Args: arguments(),
		Long: `Writes one line with performance data, and exits with 0 (OK), 1 (a warning), 2
(critical) or 3 (unknown). A threshold is WARN:CRIT, WARN or :CRIT; it is reached
at that value. A tube that is not there has no jobs and no workers. A server that
cannot be reached is critical; a mistake in the command line, or a token that is
missing, is unknown.`,
		RunE: a.onQueue(func(cmd *cobra.Command, q queue.Queue, _ []string) error {
			set := make(map[string]nagios.Threshold)
			for _, f := range figures {
				if !cmd.Flags().Changed(f.flag) {
					continue
				}
				t, err := nagios.Read("--"+f.flag, *limits[f.flag], f.few, f.read)
				if err != nil {
					return err
				}
				set[f.flag] = t
			}
			name := ""
			if cmd.Flags().Changed("tube") {
				var err error
				if name, err = names.read(tube); err != nil {
					return err
				}
			}
			v := new(verdict)
			if err := v.figures(cmd.Context(), q, name, set); err != nil {
				return err
			}
			if journal {
				if err := v.journal(cmd.Context(), q); err != nil {
					return err
				}
			}
			about := "server"
			if name != "" {
				about = "tube " + admin.ShownName(name)
			}
			return a.conclude(about, v)
		}),
	}
	c.Flags().StringVar(&tube, "tube", "", "look at this tube; without it, at the server")
	names.flags(c.Flags())
	for _, f := range figures {
		limits[f.flag] = c.Flags().String(f.flag, "", f.help)
	}
	c.Flags().BoolVar(&journal, "journal", false, "look whether changes are taken and kept: a warning while the disk is behind, critical when it is full; by polystalkd alone")
	return c
}

// figures looks at what a tube or the server says.
func (v *verdict) figures(ctx context.Context, q queue.Queue, tube string, set map[string]nagios.Threshold) error {
	s, err := look(ctx, q, tube)
	if err != nil {
		return err
	}
	for _, f := range figures {
		t, wanted := set[f.flag]
		n, told := f.value(s)
		if !told && wanted {
			what := "tell --" + f.flag + " of a tube"
			if f.flag == "connections" {
				return fault.New(fault.Usage, "--connections are the server's: leave --tube out")
			}
			if tube == "" {
				return fault.New(fault.Usage, "--%s is of a tube: name one by --tube", f.flag)
			}
			return queue.OnlyPolystalk(what)
		}
		if !told {
			continue
		}
		text := strconv.FormatFloat(n, 'f', -1, 64)
		v.data = append(v.data, fmt.Sprintf("%s=%s%s;%s;0;", f.flag, text, f.unit, t.Ranges()))
		if wanted {
			shown := text
			if f.unit == "s" {
				shown = output.FormatAge(n)
			}
			v.add(t.Of(n), shown+" "+f.flag)
		}
	}
	if len(set) == 0 {
		v.add(nagios.OK, fmt.Sprintf("%d ready, %d delayed, %d reserved, %d buried", s.Jobs.Ready, s.Jobs.Delayed, s.Jobs.Reserved, s.Jobs.Buried))
	}
	return nil
}

func look(ctx context.Context, q queue.Queue, tube string) (*seen, error) {
	s := new(seen)
	if tube == "" {
		document, err := q.Server(ctx)
		if err != nil {
			return nil, err
		}
		var server admin.Server
		if json.Unmarshal(document, &server) != nil || !hasJobs(document) {
			return nil, fault.New(fault.System, "the server's answer cannot be read: use the polystalk of its version")
		}
		open := float64(server.Connections.Open)
		s.Jobs, s.connections, s.workers = server.Jobs, &open, float64(server.Connections.Workers)
		return s, nil
	}
	document, err := q.Tube(ctx, tube)
	if fault.Code(err) == fault.Nothing {
		_, http := q.(*api.Client)
		if http {
			s.oldest = new(float64)
		}
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	var told struct {
		Oldest *float64 `json:"oldest_ready_seconds"`
	}
	if !hasJobs(document) || json.Unmarshal(document, &s.Tube) != nil || json.Unmarshal(document, &told) != nil {
		return nil, fault.New(fault.System, "the server's answer cannot be read: use the polystalk of its version")
	}
	s.oldest, s.workers = told.Oldest, float64(s.Watching)
	return s, nil
}

// hasJobs reports whether a document tells how many jobs there are. Without that they would
// seem to be 0.
func hasJobs(document []byte) bool {
	var v struct {
		Jobs json.RawMessage `json:"jobs"`
	}
	return json.Unmarshal(document, &v) == nil && v.Jobs != nil
}

// journal looks whether changes are taken and kept.
func (v *verdict) journal(ctx context.Context, q queue.Queue) error {
	c, ok := q.(*api.Client)
	if !ok {
		return queue.OnlyPolystalk("tell how the journal is")
	}
	document, err := c.Get(ctx, "/journal", nil)
	if err != nil {
		return err
	}
	var j admin.Journal
	if err := json.Unmarshal(document, &j); err != nil {
		return fault.New(fault.System, "the server's answer cannot be read: use the polystalk of its version")
	}
	v.data = append(v.data, fmt.Sprintf("journal=%dB;;;0;", j.Bytes))
	switch {
	case !j.Enabled:
		v.add(nagios.Warning, "no journal: jobs are lost when the server ends")
	case j.Pressure == "open":
		v.add(nagios.OK, "journal open")
	case j.Pressure == "wait":
		v.add(nagios.Warning, "the disk of the journal is behind")
	default:
		v.add(nagios.Critical, "journal "+j.Pressure)
	}
	return nil
}

// conclude writes the line of a plugin.
func (a *App) conclude(about string, v *verdict) error {
	fmt.Fprintf(a.out, "POLYSTALK %s - %s: %s | %s\n", v.level, plain(about), plain(strings.Join(v.reasons, ", ")), strings.Join(v.data, " "))
	if v.level == nagios.OK {
		return nil
	}
	return &plugin{v.level}
}

// plain is a text that can stand before performance data.
func plain(s string) string { return strings.ReplaceAll(terminal.Safe(s), "|", "/") }

// checked returns the exit code of a check that has ended with err. It writes the line of the
// check if there is none yet. A line that cannot be written tells nothing: unknown.
func (a *App) checked(err error) int {
	l := nagios.OK
	if p, ok := err.(*plugin); ok {
		l = p.level
	} else if err != nil {
		l = nagios.Unknown
		if fault.Code(err) == fault.System {
			l = nagios.Critical
		}
		line := err.Error()
		if f, ok := errors.AsType[*fault.Fault](err); ok {
			line = f.Line // a request's id would make each line of the same trouble another one
		}
		fmt.Fprintf(a.out, "POLYSTALK %s - %s\n", l, plain(line))
	}
	if err := a.out.Flush(); err != nil {
		fmt.Fprintf(a.Err, "polystalk: writing the output: %v\n", err)
		return int(nagios.Unknown)
	}
	return int(l)
}
