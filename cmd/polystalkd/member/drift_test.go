package member

import (
	"testing"
	"time"

	"polystalk/router/cluster"
	"polystalk/router/cluster/transport"
)

// A server that does not know yet that another was added answers that it is not a member.
func TestOnlyLaterKnowledgeRemoves(t *testing.T) {
	known := &cluster.Members{Index: 7}
	for _, tt := range []struct {
		told membership
		want bool
	}{
		{membership{Member: false, Index: 6}, false},
		{membership{Member: false, Index: 7}, false},
		{membership{Member: false, Index: 8}, true},
		{membership{Member: true, Index: 8}, false},
	} {
		if got := tt.told.removes(known); got != tt.want {
			t.Errorf("%+v: %v, want %v", tt.told, got, tt.want)
		}
	}
}

// A deposed leader that follows another keeps its connections, and sends no messages to a server
// that does not vote.
func TestConnectedIsNotHeard(t *testing.T) {
	const second = time.Second
	for _, tt := range []struct {
		name      string
		connected bool
		heard     time.Duration
		want      bool
	}{
		{"a leader", true, second, true},
		{"it was one", true, 3 * second, false},
		{"never heard of", true, -1, false},
		{"cut off", false, second, false},
	} {
		ways := []transport.PeerStatus{
			{Member: transport.Member{Node: 1}, ConnectedTo: true},
			{Member: transport.Member{Node: 2}, ConnectedTo: tt.connected},
		}
		s := &cluster.Status{Peers: []cluster.Peer{{ID: 1, Heard: 0}, {ID: 2, Heard: tt.heard}}}
		if got := isHeard(2, ways, s, 2*second); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
		if isHeard(0, ways, s, 2*second) || isHeard(3, ways, s, 2*second) {
			t.Errorf("%s: and a server that does not exist", tt.name)
		}
	}
}
