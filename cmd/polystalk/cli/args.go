package cli

import (
	"bufio"
	"io"
	"math"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"polystalk/cmd/polystalk/client"
)

// pathFlag adds --path, for verbs that take names of tubes.
func (a *App) pathFlag(fs *pflag.FlagSet) {
	fs.BoolVar(&a.path, "path", false, "tube names are percent-encoded, as in the member path, so they can have any bytes")
}

// tubeName reads the name of a tube.
func (a *App) tubeName(arg string) (string, error) {
	name := arg
	if a.path {
		var err error
		if name, err = url.PathUnescape(arg); err != nil {
			return "", client.Errorf(client.Usage, "the tube %q is not percent-encoded: write %%25 for a percent sign, or leave --path out", arg)
		}
	}
	if name == "" {
		return "", client.Errorf(client.Usage, "the name of the tube is empty: give one")
	}
	return name, nil
}

// readID reads the id of a job, a connection or an operation.
func readID(arg string) (uint64, error) {
	id, err := strconv.ParseUint(arg, 10, 64)
	if err != nil || id == 0 {
		return 0, client.Errorf(client.Usage, "%q is not an id: give a number above 0", arg)
	}
	return id, nil
}

// readIDs reads ids; a single "-" means the ids on standard input.
func (a *App) readIDs(args []string) ([]uint64, error) {
	if len(args) == 1 && args[0] == "-" {
		args = nil
		words := bufio.NewScanner(a.In)
		words.Split(bufio.ScanWords)
		for words.Scan() {
			args = append(args, words.Text())
		}
		if err := words.Err(); err != nil {
			return nil, client.Errorf(client.System, "standard input cannot be read: %v", err)
		}
	}
	var ids []uint64
	for _, arg := range args {
		id, err := readID(arg)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// readTime reads a duration: seconds such as 90 or 0.5, or 90s, 5m, 12h or 7d.
func readTime(flag, text string) (time.Duration, error) {
	unit := time.Second
	number, days := strings.CutSuffix(text, "d")
	if days {
		unit = 24 * time.Hour
	}
	if n, err := strconv.ParseFloat(number, 64); err == nil && math.Abs(n) < float64(math.MaxInt64/unit) {
		return time.Duration(n * float64(unit)), nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, client.Errorf(client.Usage, "%s %q is not a time: give seconds, or such as 90s, 5m, 12h or 7d", flag, text)
	}
	return d, nil
}

// readSeconds reads a duration in whole seconds. An empty text is 0.
func readSeconds(flag, text string) (uint32, error) {
	if text == "" {
		return 0, nil
	}
	d, err := readTime(flag, text)
	if err != nil || d < 0 || d > math.MaxUint32*time.Second || d%time.Second != 0 {
		err = client.Errorf(client.Usage, "%s %q is not a time: give whole seconds, or such as 90s, 5m, 12h or 7d", flag, text)
	}
	return uint32(d / time.Second), err
}

// jobStates are the states of jobs.
var jobStates = []string{"ready", "delayed", "reserved", "buried"}

// A selection selects jobs.
type selection struct {
	states        []string
	contains, ids string
	older         string
	limit         int // 0: all
	allTubes      bool

	minID, maxID uint64 // of ids; 0: no bound
	olderThan    uint32 // seconds
}

func (s *selection) flags(fs *pflag.FlagSet, limit int) {
	fs.StringSliceVar(&s.states, "state", nil, "ready, delayed, reserved or buried; several with commas between them")
	fs.StringVar(&s.contains, "contains", "", "jobs with this text in the body")
	fs.StringVar(&s.ids, "id", "", "jobs with ids A-B, A- or -B")
	fs.StringVar(&s.older, "older", "", "jobs that were put at least this long ago, such as 90s, 5m, 12h or 7d")
	fs.IntVar(&s.limit, "limit", limit, "stop after this number of jobs; 0: all")
	fs.BoolVar(&s.allTubes, "all-tubes", false, "the jobs of all tubes")
}

// read checks and reads the flags.
func (s *selection) read() (err error) {
	for _, state := range s.states {
		if !slices.Contains(jobStates, state) {
			return client.Errorf(client.Usage, "--state %q is not a state: give ready, delayed, reserved or buried", state)
		}
	}
	if s.limit < 0 {
		return client.Errorf(client.Usage, "--limit is %d: give a number, or 0 for all", s.limit)
	}
	if s.ids != "" {
		from, to, isRange := strings.Cut(s.ids, "-")
		if !isRange {
			to = from
		}
		if from != "" {
			s.minID, err = readID(from)
		}
		if to != "" && err == nil {
			s.maxID, err = readID(to)
		}
		if err != nil || s.ids == "-" || s.maxID != 0 && s.minID > s.maxID {
			return client.Errorf(client.Usage, "--id %q is not a range: give A-B, A- or -B", s.ids)
		}
	}
	s.olderThan, err = readSeconds("--older", s.older)
	return err
}

// list reads the flags. It returns the request for a list of jobs of the tube in the arguments,
// or of all tubes.
func (s *selection) list(r *run, body string) (client.Request, error) {
	tube, err := "", s.read()
	if err == nil && !s.allTubes {
		tube, err = r.tubeName(r.args[0])
	}
	return s.request(tube, body), err
}

// request returns the request for a list of jobs of a tube; an empty name means all tubes.
func (s *selection) request(tube, body string) client.Request {
	q := client.Request{Method: "GET", Path: "/tubes/{tube}/jobs", Tube: tube, Query: url.Values{}, Limit: s.limit}
	if tube == "" {
		q.Path = "/jobs"
	}
	for name, value := range map[string]string{"state": strings.Join(s.states, ","), "contains": s.contains, "body": body} {
		if value != "" {
			q.Query.Set(name, value)
		}
	}
	for name, n := range map[string]uint64{"id_min": s.minID, "id_max": s.maxID, "older_than": uint64(s.olderThan)} {
		if n != 0 {
			q.Query.Set(name, strconv.FormatUint(n, 10))
		}
	}
	return q
}

// open opens a file, or standard input for "-". The error ends with the remedy.
func (a *App) open(file, remedy string) (io.ReadCloser, error) {
	if file == "-" {
		if f, ok := a.In.(*os.File); ok {
			return f, nil // its size may be known
		}
		return io.NopCloser(a.In), nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, client.Errorf(client.System, "the file cannot be read: %v: %s", err, remedy)
	}
	return f, nil
}
