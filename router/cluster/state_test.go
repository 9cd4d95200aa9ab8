package cluster

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"strings"
	"testing"

	"polystalk/shard/wal/fakedisk"
)

var twoMembers = &Members{Index: 7, List: []Member{
	{ID: 3, Name: "a", Addr: "127.0.0.1:1", Voter: true},
	{ID: 9, Name: "b", Addr: "127.0.0.1:2", Standby: true},
}}

// TestStateOutlivesAnyStop: after a power cut at any operation of the disk, the State has the saved
// values, or values that were being saved.
func TestStateOutlivesAnyStop(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 5))
		d := fakedisk.New(seed)
		d.CrashAt = 1 + rng.IntN(40)
		id := Identity{Cluster: 11, Node: 3, Name: "a"}
		saved, tried := Vote{}, Vote{}
		s, err := CreateState(d, id, Vote{}, twoMembers)
		made := err == nil
		for err == nil {
			tried.Term += uint64(rng.IntN(3))
			tried.For = uint64(rng.IntN(3))
			if err = s.SaveVote(tried); err == nil {
				saved = tried
			}
		}
		d.Cut()
		d.CrashAt = 0
		s, err = OpenState(d)
		switch {
		case errors.Is(err, fs.ErrNotExist) && !made:
			if s, err = CreateState(d, id, Vote{}, twoMembers); err != nil {
				t.Fatalf("seed %d: it cannot be made after a stop: %v", seed, err)
			}
		case err != nil:
			t.Fatalf("seed %d: %v", seed, err)
		case s.Vote() != saved && s.Vote() != tried:
			t.Fatalf("seed %d: the vote is %v, %v was saved and %v tried", seed, s.Vote(), saved, tried)
		}
		if s.Identity() != id || len(s.Members().List) != 2 || s.Members().Index != 7 || *s.Members().Find(9) != twoMembers.List[1] {
			t.Fatalf("seed %d: %+v %+v", seed, s.Identity(), s.Members())
		}
	}
}

// TestStateOnAFullDisk: after its creation a State needs no more space.
func TestStateOnAFullDisk(t *testing.T) {
	d := fakedisk.New(1)
	s, err := CreateState(d, Identity{1, 3, "a"}, Vote{}, twoMembers)
	if err != nil {
		t.Fatal(err)
	}
	d.Limit = d.Size()
	for term := range uint64(5) {
		if err := s.SaveVote(Vote{term + 1, 3}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.SaveMembers(&Members{Index: 8, List: twoMembers.List[:1]}); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedStateIsRefused: a node that does not know how it has voted must not vote.
func TestDamagedStateIsRefused(t *testing.T) {
	d := fakedisk.New(1)
	s, err := CreateState(d, Identity{1, 3, "a"}, Vote{}, twoMembers)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SaveVote(Vote{4, 9}); err != nil {
		t.Fatal(err)
	}
	f := d.Entries[StateName]
	newest := int(s.seq % 2)
	f.Data[newest*slotSize+60] ^= 1
	if s, err := OpenState(d); err != nil || s.Vote() == (Vote{4, 9}) {
		t.Fatalf("with the newer slot damaged: %v", err)
	}
	f.Data[(1-newest)*slotSize] ^= 1
	if _, err := OpenState(d); err == nil || !strings.Contains(err.Error(), "cluster remove") {
		t.Fatalf("with both damaged: %v", err)
	}
}

// TestStateTrustsNoSync: after a failed sync the content is unknown, so writes fail.
func TestStateTrustsNoSync(t *testing.T) {
	d := fakedisk.New(1)
	s, err := CreateState(d, Identity{1, 3, "a"}, Vote{}, twoMembers)
	if err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	d.Before = func(op, name string) error {
		if op == "sync" {
			return boom
		}
		return nil
	}
	if err := s.SaveVote(Vote{1, 1}); !errors.Is(err, boom) {
		t.Fatalf("%v", err)
	}
	d.Before = nil
	if err := s.SaveVote(Vote{2, 1}); !errors.Is(err, boom) {
		t.Fatalf("after a failed sync: %v", err)
	}
}

// TestStateKeepsFounders: the first members stay known after changes, unless there is no space for
// them. A state that does not begin with an empty log has none.
func TestStateKeepsFounders(t *testing.T) {
	few, many := []Member{}, []Member{}
	for i := range uint64(MembersMax) {
		one := Member{ID: i + 1, Name: string(rune('a' + i)), Addr: "127.0.0.1:1"}
		few = append(few, one)
		one.Addr = strings.Repeat("x", addrMax)
		many = append(many, one)
	}
	for _, tt := range []struct {
		list  []Member
		index uint64
		want  int
	}{{few[:3], 0, 3}, {few, 0, MembersMax}, {many, 0, 0}, {few, 7, 0}} {
		members, err := Founding(tt.list)
		if err != nil {
			t.Fatal(err)
		}
		members.Index = tt.index
		d := fakedisk.New(1)
		s, err := CreateState(d, Identity{1, 3, "a"}, Vote{}, members)
		if err == nil {
			err = s.SaveMembers(&Members{Index: 9, List: members.List[1:]})
		}
		if err == nil {
			s, err = OpenState(d)
		}
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		if f := s.Founders(); f != nil {
			got = len(f.List)
			if f.Index != 0 || !f.List[2].Voter {
				t.Errorf("%+v", f)
			}
		}
		if got != tt.want || len(s.Members().List) != len(tt.list)-1 {
			t.Errorf("%d of %d founders, want %d; %d members", got, len(tt.list), tt.want, len(s.Members().List))
		}
	}
	for _, bad := range [][]Member{{few[0], few[0]}, {few[0], {ID: 99, Name: "a", Addr: "b:1"}}, {{Name: "a", Addr: "b:1"}}, append(few, Member{ID: 99, Name: "z", Addr: "b:1"})} {
		if _, err := Founding(bad); err == nil {
			t.Errorf("%+v found a cluster", bad)
		}
	}
}
