package command

import (
	"bufio"
	"io"
	"math"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"polystalk/cmd/polystalk/fault"
	"polystalk/cmd/polystalk/queue"
)

// A tubeName reads the names of tubes.
type tubeName struct{ encoded bool }

func (n *tubeName) flags(fs *pflag.FlagSet) {
	fs.BoolVar(&n.encoded, "path", false, "names of tubes are percent-encoded, as the member path has them: any octets can be given so")
}

// read is the tube that is meant by an argument.
func (n *tubeName) read(arg string) (string, error) {
	name := arg
	if n.encoded {
		var err error
		if name, err = url.PathUnescape(arg); err != nil {
			return "", fault.New(fault.Usage, "the tube %q is not percent-encoded: write %%25 for a percent sign, or leave --path out", arg)
		}
	}
	if name == "" {
		return "", fault.New(fault.Usage, "the name of the tube is empty: give one")
	}
	return name, nil
}

// readID reads the id of a job, a connection or an operation.
func readID(arg string) (uint64, error) {
	id, err := strconv.ParseUint(arg, 10, 64)
	if err != nil || id == 0 {
		return 0, fault.New(fault.Usage, "%q is no id: give a number above 0", arg)
	}
	return id, nil
}

// readIDs reads ids of jobs; for "-" as the only one, all that stand on standard input.
func (a *App) readIDs(args []string) ([]uint64, error) {
	if len(args) == 1 && args[0] == "-" {
		args = nil
		words := bufio.NewScanner(a.In)
		words.Split(bufio.ScanWords)
		for words.Scan() {
			args = append(args, words.Text())
		}
		if err := words.Err(); err != nil {
			return nil, fault.New(fault.System, "standard input cannot be read: %v", err)
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

// readTime reads a length of time: seconds such as 90 or 0.5, or 90s, 5m, 12h or 7d.
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
		return 0, fault.New(fault.Usage, "%s %q is no time: give seconds, or such as 90s, 5m, 12h or 7d", flag, text)
	}
	return d, nil
}

// readSpan reads a length of time in whole seconds.
func readSpan(flag, text string) (uint32, error) {
	if text == "" {
		return 0, nil
	}
	d, err := readTime(flag, text)
	if err != nil || d < 0 || d > math.MaxUint32*time.Second || d%time.Second != 0 {
		err = fault.New(fault.Usage, "%s %q is no time: give whole seconds, or such as 90s, 5m, 12h or 7d", flag, text)
	}
	return uint32(d / time.Second), err
}

// A picking says which jobs are meant, but for their tube.
type picking struct {
	states        []string
	contains, ids string
	older         string
	limit         int // 0: all; before flags, what it is without one

	minID, maxID uint64 // of ids; 0: none
	olderThan    uint32 // seconds
}

func (p *picking) flags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&p.states, "state", nil, "ready, delayed, reserved or buried; several with commas between them")
	fs.StringVar(&p.contains, "contains", "", "jobs whose bodies contain this text")
	fs.StringVar(&p.ids, "id", "", "jobs with ids A-B, A- or -B")
	fs.StringVar(&p.older, "older", "", "jobs that were put so long ago, such as 90s, 5m, 12h or 7d")
	fs.IntVar(&p.limit, "limit", p.limit, "stop after so many jobs; 0: after all")
}

// read reads what the flags say.
func (p *picking) read() (err error) {
	for _, s := range p.states {
		switch s {
		case "ready", "delayed", "reserved", "buried":
		default:
			return fault.New(fault.Usage, "--state %q is no state: give ready, delayed, reserved or buried", s)
		}
	}
	if p.limit < 0 {
		return fault.New(fault.Usage, "--limit is %d: give a number, or 0 for all", p.limit)
	}
	if p.ids != "" {
		from, to, ok := strings.Cut(p.ids, "-")
		if !ok {
			to = from
		}
		for _, bound := range []struct {
			text string
			to   *uint64
		}{{from, &p.minID}, {to, &p.maxID}} {
			if bound.text == "" {
				continue
			}
			if *bound.to, err = readID(bound.text); err != nil {
				return fault.New(fault.Usage, "--id %q is no range: give A-B, A- or -B", p.ids)
			}
		}
		if p.ids == "-" || p.maxID != 0 && p.minID > p.maxID {
			return fault.New(fault.Usage, "--id %q is no range: give A-B, A- or -B", p.ids)
		}
	}
	p.olderThan, err = readSpan("--older", p.older)
	return err
}

// query is a list of such jobs.
func (p *picking) query() queue.JobQuery {
	return queue.JobQuery{
		States: p.states, Contains: p.contains, MinID: p.minID, MaxID: p.maxID, Older: time.Duration(p.olderThan) * time.Second, Limit: p.limit,
	}
}

// open opens a file, or standard input if it is named -. The error ends in what else to give.
func (a *App) open(file, remedy string) (io.ReadCloser, error) {
	if file == "-" {
		if f, ok := a.In.(*os.File); ok {
			return f, nil // it may be a file whose size is known; nobody reads it afterwards
		}
		return io.NopCloser(a.In), nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fault.New(fault.System, "the file cannot be read: %v: %s", err, remedy)
	}
	return f, nil
}

// onQueue runs do with a connection to the server.
func (a *App) onQueue(do func(cmd *cobra.Command, q queue.Queue, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		q, err := a.queue(cmd.Context())
		if err != nil {
			return err
		}
		defer q.Close()
		return do(cmd, q, args)
	}
}
