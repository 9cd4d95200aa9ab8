package member

import (
	"math"
	"testing"

	"polystalk/router/cluster"
	"polystalk/router/cluster/transport"
)

// TestRoomOfMost: what a leader may count on is what as many others have as it takes to commit
// something; who does not vote does not count, and who has not said anything is no limit.
func TestRoomOfMost(t *testing.T) {
	const unknown = math.MaxInt64
	for _, tt := range []struct {
		name   string
		voters []int64 // rooms of the others; below zero: not told
		learns []int64 // of those who do not vote
		want   int64
	}{
		{"alone", nil, nil, unknown},
		{"alone, with one that learns", nil, []int64{5}, unknown},
		{"one of two", []int64{7}, nil, 7},
		{"one of three is full", []int64{0, 9}, nil, 9},
		{"two of three are", []int64{3, 0}, nil, 3},
		{"one of three is gone", []int64{-1, 4}, nil, unknown},
		{"one of four: two others are needed", []int64{9, 0, 5}, []int64{1}, 5},
		{"one of five", []int64{1, 8, 0, 6}, nil, 6},
		{"of five two are full", []int64{0, 0, 6, 7}, nil, 6},
		{"of five three are", []int64{0, 0, 0, 7}, nil, 0},
	} {
		members := &cluster.Members{List: []cluster.Member{{ID: 1, Voter: true}}}
		var peers []transport.PeerStatus
		add := func(room int64, votes bool) {
			id := uint64(len(members.List) + 1)
			members.List = append(members.List, cluster.Member{ID: id, Voter: votes})
			p := transport.PeerStatus{Member: transport.Member{Node: id}}
			if room >= 0 {
				p.Room = &room
			}
			peers = append(peers, p)
		}
		for _, room := range tt.voters {
			add(room, true)
		}
		for _, room := range tt.learns {
			add(room, false)
		}
		if got := roomOfMost(members, 1, peers); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}
