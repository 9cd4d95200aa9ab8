package journal

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"polystalk/codec/gearman"
	"polystalk/shard/record"
	"polystalk/shard/wal"
)

// An inspection is one run of Inspect.
type inspection struct {
	out io.Writer
	v   *wal.Survey
	r   *replica // the jobs; nil: only records are listed
}

// Inspect writes an overview of the journal in dir, or a list of its jobs or its records.
func Inspect(dir string, listJobs, listRecords bool, out io.Writer) error {
	s, err := openSource(dir)
	if err != nil {
		return err
	}
	defer s.close()
	i := &inspection{out: out}
	if i.v, err = s.journal(); err != nil {
		return err
	}
	switch overview := !listJobs && !listRecords; {
	case overview:
		i.segments()
		s.writeLosses(out)
		s.writeTorn(out, "a start cuts it off")
		fallthrough
	case listJobs:
		i.r = newReplica()
		defer i.r.close()
		if err = i.r.read(i.v, false); err != nil {
			return err
		}
		i.r.done(&i.r.view)
		if overview {
			err = i.sums()
		} else {
			err = i.jobs()
		}
	}
	if err == nil && listRecords {
		err = i.records()
	}
	if err != nil {
		return err
	}
	return s.damaged(s.salvageAdvice())
}

// moment formats a time in UTC.
func moment(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// nano formats a time in Unix nanoseconds; 0 means none.
func nano(ns int64) string {
	if ns == 0 {
		return "-"
	}
	return moment(time.Unix(0, ns))
}

// shown returns a tube name as list-tubes shows it. The name of a Gearman function may contain
// newlines, tabs and control characters.
func shown[T ~string | ~[]byte](name T) []byte { return gearman.AppendQuoted(nil, []byte(name)) }

// segments lists the segments of the journal.
func (i *inspection) segments() {
	fmt.Fprintf(i.out, "journal %s\n\n", i.v.UUID)
	t := tabwriter.NewWriter(i.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "segment\tbytes\tused\tbatches\tfirst\tlast\tfrom\tto\t")
	for _, s := range i.v.Segments {
		first, last, from, to := "-", "-", "-", "-"
		if s.Batches > 0 {
			first, last, from, to = fmt.Sprint(s.First), fmt.Sprint(s.Last), moment(s.From), moment(s.To)
		}
		fmt.Fprintf(t, "%d\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t\n", s.Number, s.Size, s.Used, s.Batches, first, last, from, to)
	}
	t.Flush()
	fmt.Fprintln(i.out)
}

// A census holds numbers of jobs by their state, and the bytes of their bodies by "bytes".
type census map[string]int

// sums shows the counts of all jobs and of each tube.
func (i *inspection) sums() error {
	total, tubes := census{}, make(map[string]census)
	for name := range i.r.paused {
		tubes[name] = census{} // a paused tube may have no jobs
	}
	ids := i.r.ids()
	for _, id := range ids {
		j, err := i.r.job(id)
		if err != nil {
			return err
		}
		tube := string(j.Tube)
		if tubes[tube] == nil {
			tubes[tube] = census{}
		}
		for _, c := range []census{total, tubes[tube]} {
			c[i.r.stateOf(j)]++
			c["bytes"] += len(j.Body)
		}
	}
	size := int64(0)
	for _, s := range i.v.Segments {
		size += s.Size
	}
	fmt.Fprintf(i.out, "jobs: %d (%d ready, %d delayed, %d buried), %d bytes of bodies\n", len(ids), total["ready"], total["delayed"], total["buried"], total["bytes"])
	fmt.Fprintf(i.out, "bytes: %d in segments, %d for live jobs\n", size, i.r.view.Live)
	fmt.Fprintf(i.out, "highest id: %d\n", i.v.Globals.HighID)
	if n := i.v.Globals.Imported; n > 0 {
		fmt.Fprintf(i.out, "imported: beanstalkd's files up to binlog.%d\n", n)
	} else {
		fmt.Fprintln(i.out, "imported: nothing")
	}
	fmt.Fprintf(i.out, "policies: %d", len(i.r.core.RecordedPolicies().List()))
	if i.r.policies != nil {
		fmt.Fprintf(i.out, "; releases before policies cannot read %s", strings.Join(i.r.policies, ", "))
	}
	fmt.Fprintln(i.out)
	if l := i.v.Log; l != nil {
		fmt.Fprintf(i.out, "log: entries %d to %d; %s replaced\n", l.First, l.Last, counted(l.Replaced, "batch was", "batches were"))
	}
	if len(tubes) == 0 {
		return nil
	}
	fmt.Fprintln(i.out)
	t := tabwriter.NewWriter(i.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "tube\tready\tdelayed\tburied\tbytes\tpaused until")
	for _, name := range slices.Sorted(maps.Keys(tubes)) {
		c := tubes[name]
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%s\n", shown(name), c["ready"], c["delayed"], c["buried"], c["bytes"], nano(i.r.paused[name].until))
	}
	return t.Flush()
}

// jobs lists the jobs.
func (i *inspection) jobs() error {
	fmt.Fprintln(i.out, "id\ttube\tstate\tpri\tdelay\tttr\tcreated\tdue\tbytes\treserves\ttimeouts\treleases\tburies\tkicks")
	for _, id := range i.r.ids() {
		j, err := i.r.job(id)
		if err != nil {
			return err
		}
		state, due := i.r.stateOf(j), "-"
		if state == "delayed" {
			due = nano(j.Due)
		}
		fmt.Fprintf(i.out, "%d\t%s\t%s\t%d\t%d\t%d\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\n", j.ID, shown(j.Tube), state, j.Pri, j.Delay, j.TTR,
			nano(j.Created), due, len(j.Body), j.Counts.Reserves, j.Counts.Timeouts, j.Counts.Releases, j.Counts.Buries, j.Counts.Kicks)
	}
	return nil
}

// records lists the records.
func (i *inspection) records() error {
	fmt.Fprintln(i.out, "file\toffset\tbatch\ttime\trecord")
	return i.v.Each(true, func(b *wal.Batch) error {
		for r, err := range b.Records() {
			text := "unreadable"
			if err == nil {
				text = describe(r)
			}
			if b.Replaced {
				text += " (replaced)"
			}
			if _, err := fmt.Fprintf(i.out, "%s\t%d\t%d\t%s\t%s\n", b.File, b.Offset, b.Number, moment(b.Time), text); err != nil {
				return err
			}
		}
		return nil
	})
}

// describe returns a record as text.
func describe(r *record.Record) string {
	state := map[uint8]string{record.Ready: "ready", record.Delayed: "delayed", record.Buried: "buried"}[r.Job.State]
	size := uint64(len(r.Body))
	if r.Chunked > 0 {
		size = r.Chunked
	}
	switch r.Kind {
	case record.KindPut, record.KindCopy:
		name := "put"
		if r.Kind == record.KindCopy {
			name = "copy"
		}
		return fmt.Sprintf("%s id=%d tube=%s state=%s pri=%d delay=%d ttr=%d due=%s bytes=%d", name, r.ID, shown(r.Tube), state, r.Pri, r.Delay, r.TTR, nano(r.Due), size)
	case record.KindChunk:
		return fmt.Sprintf("chunk id=%d bytes=%d", r.ID, size)
	case record.KindUpdate:
		return fmt.Sprintf("update id=%d state=%s pri=%d delay=%d due=%s", r.ID, state, r.Pri, r.Delay, nano(r.Due))
	case record.KindDelete:
		return fmt.Sprintf("delete id=%d", r.ID)
	case record.KindPause:
		return fmt.Sprintf("pause tube=%s until=%s", shown(r.Tube), nano(r.Until))
	case record.KindPolicies:
		return fmt.Sprintf("policies count=%d", len(r.Policies))
	case record.KindState:
		return fmt.Sprintf("state highest=%d imported=%d", r.Globals.HighID, r.Globals.Imported)
	case record.KindEntry:
		h := r.Entry
		name := map[record.EntryKind]string{record.Normal: "records", record.Change: "members", record.ChangeV2: "members"}[h.Kind]
		return fmt.Sprintf("entry index=%d term=%d committed=%d of=%s bytes=%d", h.Index, h.Term, h.Commit, name, len(h.Change))
	case record.KindFloor:
		return fmt.Sprintf("floor index=%d highest=%d imported=%d", r.Floor.Index, r.Floor.HighID, r.Floor.Imported)
	case record.KindEpoch:
		return fmt.Sprintf("epoch node=%016x time=%s format=%d", r.Epoch.Node, nano(r.Epoch.Time), r.Epoch.Format)
	}
	return "unknown"
}

// Verify reads the whole journal in dir, and reports each damage.
func Verify(dir string, out io.Writer) error {
	s, err := openSource(dir)
	if err != nil {
		return err
	}
	defer s.close()
	v, err := s.journal()
	if err != nil {
		return err
	}
	s.writeLosses(out)
	s.writeTorn(out, "a start cuts it off")
	if err := s.damaged(s.salvageAdvice()); err != nil {
		return err
	}
	fmt.Fprintf(out, "whole: %s, %s\n", counted(len(v.Segments), "segment", "segments"), counted(v.Batches, "batch", "batches"))
	return nil
}
