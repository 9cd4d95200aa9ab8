package journal

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/spf13/pflag"

	"polystalk/cmd/polystalk/client"
	"polystalk/codec/binlog"
	"polystalk/router/restore"
	"polystalk/shard/core"
	"polystalk/shard/record"
)

var exportCommand = Command{
	Use:   "export DIR OUT",
	Short: "write the jobs as files that beanstalkd can start from",
	Long: `Writes all jobs of the journal in DIR to OUT, for a return to beanstalkd -b OUT. OUT must
be empty or not exist. DIR does not change. beanstalkd's account must own the files.

The output lists what beanstalkd cannot keep: paused tubes, a highest id above the ids of
the jobs, and bodies for which it needs a larger -z. beanstalkd adds one to the buries of
each buried job. A damaged journal is refused: salvage it first.`,
	New: func(fs *pflag.FlagSet) func([]string, io.Writer) error {
		format := fs.String("format", "v7", "write this `FORMAT`; the only one is v7, which beanstalkd 1.5 to 1.13 has")
		return func(args []string, out io.Writer) error {
			if *format != "v7" {
				return client.Errorf(client.Usage, "journal export: flag --format: unknown format %q: give v7", *format)
			}
			return export(args[0], args[1], out)
		}
	},
}

func export(dir, to string, out io.Writer) error {
	s, err := openSource(dir)
	if err != nil {
		return err
	}
	defer s.close()
	v, err := s.journal()
	if err != nil {
		return err
	}
	if err := s.damaged(s.salvageAdvice() + ", from where it can be exported"); err != nil {
		return err
	}
	r := newReplica()
	defer r.close()
	if err := r.read(v, false); err != nil {
		return err
	}
	r.done(&r.view)
	t, err := openTarget(to, dir)
	if err != nil {
		return err
	}
	highest := core.JobID(0)
	done, err := binlog.WriteDir(to, r.logged(&highest))
	if err != nil {
		t.discard()
		return err
	}
	s.writeTorn(out, "it is left out")
	for _, w := range done.Warnings {
		fmt.Fprintf(out, "warning: %v\n", w)
	}
	for _, name := range r.pausedTubes() {
		fmt.Fprintf(out, "warning: tube %q is paused until %s: beanstalkd forgets the pause\n", name, nano(r.paused[name].until))
	}
	if high := v.Globals.HighID; high > uint64(highest) {
		fmt.Fprintf(out, "warning: deleted jobs used ids up to %d: beanstalkd continues from %d, and reuses ids\n", high, highest+1)
	}
	fmt.Fprintf(out, "written: %s, %s, in %s: start beanstalkd -b %s", counted(done.Jobs, "job", "jobs"), counted(done.Bytes, "byte", "bytes"), to, to)
	if done.MaxJobSize > 0 {
		fmt.Fprintf(out, " -z %d", done.MaxJobSize)
	}
	fmt.Fprintln(out)
	return t.close()
}

// logged returns all jobs in the order of beanstalkd's log: by id, then the buried ones by time of
// bury, because beanstalkd restores buried jobs in the order of its log.
func (r *replica) logged(highest *core.JobID) iter.Seq2[binlog.Job, error] {
	return func(yield func(binlog.Job, error) bool) {
		type burial struct {
			id core.JobID
			at int64
		}
		var buried []burial
		give := func(j *record.Job, err error) bool {
			if err != nil {
				yield(binlog.Job{}, err)
				return false
			}
			return yield(restore.JobOf(j), nil)
		}
		for _, id := range r.ids() {
			*highest = id
			j, err := r.job(id)
			if err == nil && j.State == record.Buried {
				buried = append(buried, burial{id, j.Due})
				continue
			}
			if !give(j, err) {
				return
			}
		}
		slices.SortStableFunc(buried, func(a, b burial) int { return cmp.Compare(a.at, b.at) })
		for _, b := range buried {
			if !give(r.job(b.id)) {
				return
			}
		}
	}
}
