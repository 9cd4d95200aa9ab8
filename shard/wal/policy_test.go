package wal_test

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/cryptotest"
	"time"

	"polystalk/shard/core"
	"polystalk/shard/record"
	. "polystalk/shard/wal"
	"polystalk/shard/wal/fakedisk"
)

// A journal without policies has the bytes that the release before policies wrote, so that release
// reads it. The sums are of that release, which ran this test with the same history.
func TestJournalWithoutPoliciesKeepsItsBytes(t *testing.T) {
	for _, tt := range []struct {
		seed    uint64
		several bool
		want    string
	}{
		{3, false, "a9b465150424dd46"},
		{4, false, "c5c206582d109286"},
		{3, true, "3ae412a2a335aebb"},
		{4, true, "d711ec80e0cd1fbe"},
	} {
		cryptotest.SetGlobalRandom(t, tt.seed) // the journal's UUID
		w := newWorld(tt.seed, fakedisk.New(tt.seed))
		if tt.several {
			newSole(w)
		}
		must(t, second(w.open(true)))
		for range 400 {
			must(t, w.step())
		}
		must(t, w.commit())
		must(t, w.j.Close())
		w.closeCores()
		sum := sha256.New()
		for _, name := range slices.Sorted(maps.Keys(w.fake.Entries)) {
			fmt.Fprintln(sum, name)
			sum.Write(w.fake.Entries[name].Data)
		}
		if got := fmt.Sprintf("%x", sum.Sum(nil))[:16]; got != tt.want {
			t.Errorf("seed %d, one of several %v: the journal has the sum %s, want %s", tt.seed, tt.several, got, tt.want)
		}
	}
}

// setOf returns a set of n policies, which together take about size bytes.
func setOf(n, size int) []record.Policy {
	set := make([]record.Policy, n)
	for i := range set {
		set[i] = record.Policy{Match: fmt.Sprintf("tube %d*", i), Attempts: uint64(i + 1), RunningPlus: 1}
		set[i].Note = strings.Repeat("n", max(0, size/n-len(record.AppendPolicies(nil, set[i:i+1]))+6))
	}
	return set
}

// setPolicies sets and records a set, and waits until it is durable.
func (s *server) setPolicies(t *testing.T, set []record.Policy) {
	t.Helper()
	var r core.Reply
	s.at(0, func(d *desk) {
		op := core.Op{Client: d.client}
		op.SetPolicies(core.NewPolicies(set), true)
		d.core.Apply(core.Time(time.Now().UnixNano()), &op, &r)
	})
	if !s.await(r.Commit) {
		t.Fatalf("%v", s.fails)
	}
}

// wantPolicies checks the set of the core that records it.
func (s *server) wantPolicies(t *testing.T, want []record.Policy) {
	t.Helper()
	if got := s.desks[0].core.RecordedPolicies().List(); !slices.Equal(got, want) {
		t.Errorf("there are %d policies %.300v, want %d %.300v", len(got), got, len(want), want)
	}
}

// The largest set is kept for as many segments as there will ever be, also by the log of one server
// of several. A smaller set replaces it. Once the set is empty no segment has it.
func TestCompactionKeepsPolicies(t *testing.T) {
	largest := setOf(record.PoliciesMax, record.PoliciesSizeMax)
	if n := len(record.AppendPolicies(nil, largest)); n > record.PoliciesSizeMax || n < record.PoliciesSizeMax*9/10 {
		t.Fatalf("the set has %d bytes", n)
	}
	segments := uint64(100)
	if testing.Short() {
		segments = 8
	}
	for _, several := range []bool{false, true} {
		s := &server{disk: fakedisk.New(1), policy: SyncNever, size: SegmentMin}
		if several {
			s.busy = new(busy)
		}
		must(t, s.open(2))
		churn := func(until uint64) {
			for s.j.Stats().Oldest < until {
				id := s.newID()
				s.do(1, &core.Op{Kind: core.OpPut, ID: id, TTR: 100, Body: make([]byte, 30_000)})
				if r := s.do(1, &core.Op{Kind: core.OpDelete, ID: id}); r.Status != core.StatusOK || !s.await(r.Commit) || !s.admitted() {
					t.Fatalf("%v, %v", r.Status, s.fails)
				}
			}
		}
		for _, set := range [][]record.Policy{largest, largest[:3]} {
			s.setPolicies(t, set)
			churn(s.j.Stats().Oldest + segments)
			must(t, s.restart(2))
			s.wantPolicies(t, set)
		}
		s.setPolicies(t, nil)
		churn(s.j.Stats().Oldest + 4)
		must(t, s.end())
		v, err := Look(s.disk)
		must(t, err)
		must(t, v.Each(true, func(b *Batch) error {
			for r := range b.Records() {
				if r.Kind == record.KindPolicies {
					t.Errorf("%s has policies still: %+v", b.File, r.Policies)
				}
			}
			return nil
		}))
		must(t, s.open(2))
		s.wantPolicies(t, nil)
		must(t, s.end())
	}
}

// What a power cut leaves of a change of policies at the end of the journal is either set.
func TestTornPoliciesAreTheOldOnes(t *testing.T) {
	old, changed := setOf(1, 50), setOf(300, 20_000)
	d := fakedisk.New(1)
	s := &server{disk: d, policy: SyncAlways, size: SegmentMin}
	must(t, s.open(1))
	s.setPolicies(t, old)
	_, at := s.j.End()
	s.setPolicies(t, changed)
	number, end := s.j.End()
	must(t, s.end())
	for cut := at; cut <= end; cut += max(1, (end-at)/40) {
		s.disk = d.Clone()
		data := s.disk.(*fakedisk.Disk).Entries[SegmentName(number)].Data
		if int64(len(data)) < end {
			t.Fatal("the segment is shorter than its end")
		}
		clear(data[cut:])
		must(t, s.open(1))
		want := old
		if cut >= at+int64(BatchHead+len(record.AppendPolicies(nil, changed))) {
			want = changed
		}
		s.wantPolicies(t, want)
		must(t, s.end())
	}
}

// A record of policies that is not well-formed, or from a later release, stops the start. The error
// names the place.
func TestStartRefusesWrongPolicies(t *testing.T) {
	for _, tt := range []struct{ content, says string }{
		{"\x05mail", "a record of policies ends early, or is not well-formed"},
		{"\x01a\x00\x02\x01\x03\x01\x03", "a record of policies ends early, or is not well-formed"},
		{"\x01a\x00\x00\x01a\x00\x00", `a record of policies has two for "a"`},
		{"\x05mail*\x00\x01\x0e\x03", `the policy for "mail*" has the unknown option 14: it is from a newer version`},
	} {
		s := &server{disk: fakedisk.New(1), policy: SyncAlways, size: SegmentMin}
		must(t, s.open(2))
		s.at(0, func(d *desk) {
			b := &d.log.Buffer
			at := len(b.Data)
			b.Policies(nil)
			b.Data = append(b.Data, tt.content...)
			b.Data[at] = byte(len(b.Data) - at)
		})
		must(t, s.j.Durable())
		must(t, s.end())
		err := s.open(2)
		if err == nil || !strings.HasPrefix(err.Error(), "journal.0000000001, the batch at offset ") || !strings.HasSuffix(err.Error(), ": "+tt.says) {
			t.Errorf("%q: %v, want %q", tt.content, err, tt.says)
		}
	}
}
