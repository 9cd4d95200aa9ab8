package member

import (
	"fmt"
	"testing"

	"polystalk/router/cluster"
	"polystalk/router/cluster/transport"
)

// TestFullDisksAreToldOnce: of each server whose disk becomes full, when it does, and once there is
// space again, with some to spare.
func TestFullDisksAreToldOnce(t *testing.T) {
	members := &cluster.Members{List: []cluster.Member{{ID: 1, Name: "jobs1"}, {ID: 2, Name: "jobs2"}, {ID: 3, Name: "jobs3"}}}
	isFull := func(room int64) (full, nearly bool) { return room < 100, room < 150 }
	var f fullDisks
	for i, tt := range []struct {
		second, third int64 // their rooms; below zero: not told
		news, full    string
	}{
		{-1, 500, "[]", "[]"},
		{99, 500, "[{jobs2 true 99}]", "[jobs2]"},
		{98, 0, "[{jobs3 true 0}]", "[jobs2 jobs3]"},
		{120, 0, "[]", "[jobs2 jobs3]"},
		{150, 0, "[{jobs2 false 150}]", "[jobs3]"},
		{120, 0, "[]", "[jobs3]"},
		{120, 500, "[{jobs3 false 500}]", "[]"},
	} {
		var peers []transport.PeerStatus
		for id, room := range map[uint64]int64{2: tt.second, 3: tt.third, 4: 0} { // the last is no member
			if room >= 0 {
				peers = append(peers, transport.PeerStatus{Member: transport.Member{Node: id}, Room: &room})
			}
		}
		if news := fmt.Sprint(f.look(members, peers, isFull)); news != tt.news {
			t.Errorf("look %d: news %s, want %s", i, news, tt.news)
		}
		if full := fmt.Sprint(f.names()); full != tt.full {
			t.Errorf("look %d: full %s, want %s", i, full, tt.full)
		}
	}
}
