package journal

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"polystalk/shard/commit"
	"polystalk/shard/record"
	"polystalk/shard/wal"
)

// writeSets writes a journal with a job, and one set of policies after the other.
func writeSets(t *testing.T, dir string, sets ...[]record.Policy) {
	t.Helper()
	j := commit.New(commit.Options{Shards: 1, Options: wal.Options{Disk: wal.Dir(dir), SegmentSize: wal.SegmentMin, Now: time.Now, Manual: true}})
	if err := j.Start(); err != nil {
		t.Fatal(err)
	}
	log := j.Log(0)
	log.Begin()
	log.Buffer.Put(&record.Job{ID: 1, State: record.Ready, Tube: []byte("mail"), TTR: 60, Body: []byte("hello")}, 0, nil)
	log.End()
	for _, set := range sets {
		log.Begin()
		log.Buffer.Policies(set)
		log.End()
		if err := j.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// The overview says whether earlier releases can read a journal, salvage keeps the policies, and an
// export for beanstalkd says that it does not.
func TestVerbsKnowPolicies(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	one, two := record.Policy{Match: "mail", Attempts: 3, Note: "see the wiki"}, record.Policy{Match: "api.*", RunningPlus: 1}
	for _, tt := range []struct {
		sets                       [][]record.Policy
		inspect, salvage, exported string
	}{
		{nil, "\npolicies: 0\n", "copied: 1 job into", ""},
		{[][]record.Policy{{one}}, "\npolicies: 1; releases before policies cannot read journal.0000000001\n", ", 1 policy; ids", "warning: 1 policy is left out: beanstalkd has none\n"},
		{[][]record.Policy{{one}, {two, one}}, "\npolicies: 2; releases before", ", 2 policies; ids", "warning: 2 policies are left out: beanstalkd has none\n"},
		{[][]record.Policy{{one}, nil}, "\npolicies: 0; releases before policies cannot read journal.0000000001\n", "copied: 1 job into", ""},
	} {
		dir, top := t.TempDir(), t.TempDir()
		writeSets(t, dir, tt.sets...)
		var out, records, salvage, exported strings.Builder
		for _, err := range []error{
			Inspect(dir, false, false, &out), Inspect(dir, false, true, &records),
			Salvage(dir, filepath.Join(top, "salvaged"), &salvage), Export(dir, filepath.Join(top, "exported"), &exported),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if !strings.Contains(out.String(), tt.inspect) || !strings.Contains(salvage.String(), tt.salvage) || !strings.Contains(exported.String(), tt.exported) ||
			tt.exported == "" && strings.Contains(exported.String(), "beanstalkd has none") || strings.Count(records.String(), "policies count=") != len(tt.sets) {
			t.Errorf("%+v:\n%s\n%s\n%s\n%s", tt.sets, &out, &records, &salvage, &exported)
		}
		if len(tt.sets) == 0 {
			continue
		}
		s, err := openSource(filepath.Join(top, "salvaged"))
		if err != nil {
			t.Fatal(err)
		}
		r := newReplica()
		if err := r.read(s.survey, false); err != nil {
			t.Fatal(err)
		}
		if got := r.core.RecordedPolicies().List(); !slices.Equal(got, tt.sets[len(tt.sets)-1]) {
			t.Errorf("salvaged: %+v, want %+v", got, tt.sets)
		}
		r.close()
		s.close()
	}
}
