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

// TestWithRoom: a leader whose disk is full has another lead only if changes are taken then, for
// which a majority must have room, and it is reached.
func TestWithRoom(t *testing.T) {
	for _, tt := range []struct {
		name   string
		voters []int64 // rooms of the others, from number 2 on; below zero: not told
		gone   uint64  // who cannot be reached
		want   uint64
	}{
		{"alone", nil, 0, 0},
		{"one of two", []int64{500}, 0, 0},
		{"one of three", []int64{100, 500}, 0, 3},
		{"another is nearly full", []int64{99, 500}, 0, 0},
		{"another has not said", []int64{-1, 500}, 0, 0},
		{"another is gone", []int64{300, 500}, 2, 0},
		{"the best is gone", []int64{500, 300, 200, 100}, 2, 3},
		{"two of five are full", []int64{0, 100, 300, 200}, 0, 4},
		{"three of five are full", []int64{0, 0, 300, 200}, 0, 0},
	} {
		members := &cluster.Members{List: []cluster.Member{{ID: 1, Voter: true}, {ID: 99}}}
		full := int64(1 << 40)
		peers := []transport.PeerStatus{{Member: transport.Member{Node: 99}, ConnectedTo: true, Room: &full}}
		for i := range tt.voters {
			id := uint64(i + 2)
			members.List = append(members.List, cluster.Member{ID: id, Voter: true})
			p := transport.PeerStatus{Member: transport.Member{Node: id}, ConnectedTo: id != tt.gone}
			if tt.voters[i] >= 0 {
				p.Room = &tt.voters[i]
			}
			peers = append(peers, p)
		}
		got := uint64(0)
		if one := withRoom(members, 1, peers, 100); one != nil {
			got = one.ID
		}
		if got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}
