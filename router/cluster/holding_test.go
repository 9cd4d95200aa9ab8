package cluster

import (
	"testing"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"polystalk/shard/record"
)

// TestHoldingKeepsBack: the commit index is held while an appended change is not applied, unless the
// change was replaced or removes the leader.
func TestHoldingKeepsBack(t *testing.T) {
	removal := func(id uint64) []byte {
		data, err := proto.Marshal((&Change{Kind: Remove, Member: Member{ID: id, Name: "n", Addr: "x"}}).conf())
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	for name, tt := range map[string]struct {
		lists   [][]Entry
		applied uint64
		want    uint64 // the commit index in the message; 9 is the real one
	}{
		"nothing":         {nil, 3, 9},
		"no change":       {[][]Entry{{{Index: 4}, {Index: 9}}}, 3, 9},
		"a change":        {[][]Entry{{{Index: 4}}, {{Index: 9, Kind: record.ChangeV2, Data: removal(2)}}}, 3, 3},
		"applied":         {[][]Entry{{{Index: 9, Kind: record.ChangeV2, Data: removal(2)}}}, 9, 9},
		"replaced":        {[][]Entry{{{Index: 8, Kind: record.ChangeV2, Data: removal(2)}}, {{Index: 8}, {Index: 9}}}, 3, 9},
		"of the one here": {[][]Entry{{{Index: 9, Kind: record.ChangeV2, Data: removal(1)}}}, 3, 9},
		"behind one that is applied": {[][]Entry{{
			{Index: 8, Kind: record.ChangeV2, Data: removal(1)}, {Index: 9, Kind: record.ChangeV2, Data: removal(2)},
		}}, 8, 8},
	} {
		var h holding
		if err := h.begin(&memLog{}, 0); err != nil {
			t.Fatal(err)
		}
		for _, list := range tt.lists {
			h.note(list)
		}
		msg := &raftpb.Message{To: new(uint64(2)), Commit: new(uint64(9))}
		if got := h.take(msg, 1, tt.applied).GetCommit(); got != tt.want {
			t.Errorf("%s: committed up to %d, want %d", name, got, tt.want)
		}
		if list := h.release(tt.applied); len(list) != 0 {
			t.Errorf("%s: %v is released too early", name, list)
		}
		list := h.release(9)
		if held := tt.want < 9; held != (len(list) == 1) || held && list[0].pb != msg {
			t.Errorf("%s: %v is released, want the held message", name, list)
		}
	}
}
