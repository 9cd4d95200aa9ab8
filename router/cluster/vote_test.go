package cluster

import (
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"polystalk/shard/wal/fakedisk"
)

// A node that has voted votes for no other in the same term, not even after a power cut. With a
// disk that forgets a sync it does, and two could lead in one term.
func TestVoteOutlivesAStop(t *testing.T) {
	if got := votes(t, false); len(got) != 1 || got[0] != 2 {
		t.Errorf("it has voted for %d", got)
	}
	if got := votes(t, true); len(got) != 2 {
		t.Errorf("without a sync it has voted for %d", got)
	}
}

// votes returns the candidates for which node 1 votes in one term, before and after a stop.
func votes(t *testing.T, forgets bool) (votes []uint64) {
	three := &Members{}
	for id := range uint64(3) {
		three.List = append(three.List, Member{ID: id + 1, Name: string(rune('a' + id)), Addr: "x", Voter: true})
	}
	d := fakedisk.New(1)
	s, err := CreateState(d, Identity{1, 1, "a"}, Vote{}, three)
	if err != nil {
		t.Fatal(err)
	}
	for _, candidate := range []uint64{2, 3} {
		before := d.Clone()
		h, err := NewStepper(StepperOptions{
			Machine: Options{ID: 1, Log: &memLog{}, Timeout: timeoutTime}, State: s, Now: newClock(), Proposals: NewProposals(),
			Send: func(m Message) {
				if m.pb.GetType() == raftpb.MsgVoteResp && !m.pb.GetReject() {
					votes = append(votes, m.To())
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		h.engine.machine.quiet = 0 // it has been up for a while
		ask := Message{&raftpb.Message{
			Type: raftpb.MsgVote.Enum(), From: new(candidate), To: new(uint64(1)), Term: new(uint64(1)), Index: new(uint64(0)), LogTerm: new(uint64(0)),
		}}
		if err := h.Receive(ask); err != nil {
			t.Fatal(err)
		}
		if len(votes) > 0 && votes[len(votes)-1] == candidate {
			t.Errorf("it votes for %d before anything is synced", candidate)
		}
		for h.Writes() > 0 {
			if err := h.Write(1); err != nil {
				t.Fatal(err)
			}
		}
		d.Cut()
		if forgets {
			d = before
		}
		if s, err = OpenState(d); err != nil {
			t.Fatal(err)
		}
	}
	return votes
}

// newClock is one that goes on by a microsecond whenever it is looked at.
func newClock() func() time.Duration {
	var now time.Duration
	return func() time.Duration {
		now += time.Microsecond
		return now
	}
}
