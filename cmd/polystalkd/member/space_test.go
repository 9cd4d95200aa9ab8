package member

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"polystalk/router/cluster"
	"polystalk/router/cluster/transport"
)

// withRooms returns the quorum of a leader; its other voters, from number 2 on, have these rooms.
func withRooms(rooms []int64, away ...uint64) *quorum {
	q := quorumOf(uint64(len(rooms)+1), away...)
	for i := range rooms {
		if rooms[i] != unknown {
			q.links[i].Room = &rooms[i]
		}
	}
	return q
}

// Servers that cannot be reached and servers without a vote do not count. The servers that set the
// limit are named.
func TestRoomIsLimitedByAReachableMajority(t *testing.T) {
	for _, tt := range []struct {
		name  string
		rooms []int64
		away  []uint64
		want  int64
		of    string
	}{
		{"alone", nil, nil, unknown, ""},
		{"one of two", []int64{7}, nil, 7, "jobs2"},
		{"one of three is full", []int64{0, 9}, nil, 9, "jobs2 jobs3"},
		{"two of three are", []int64{3, 0}, nil, 3, "jobs3 jobs2"},
		{"one of three is full and the other is away", []int64{0, 9}, []uint64{3}, 0, "jobs2"},
		{"one of three has room and the other is away", []int64{0, 9}, []uint64{2}, 9, "jobs3"},
		{"two of three are away", []int64{0, 9}, []uint64{2, 3}, unknown, ""},
		{"one of three has not told", []int64{unknown, 4}, nil, unknown, "jobs3 jobs2"},
		{"one of five", []int64{1, 8, 0, 6}, nil, 6, "jobs4 jobs2 jobs5"},
		{"of five two are full", []int64{0, 0, 6, 7}, nil, 6, "jobs2 jobs3 jobs4"},
		{"of five three are", []int64{0, 0, 0, 7}, nil, 0, "jobs2 jobs3 jobs4"},
		{"of five one is full and two are away", []int64{0, 9, 8, 7}, []uint64{3, 4}, 0, "jobs2"},
	} {
		r := withRooms(tt.rooms, tt.away...)
		r.add(99, 0, false)
		if got, of := r.roomOfMajority(); got != tt.want || strings.Join(of, " ") != tt.of {
			t.Errorf("%s: %d of %q, want %d of %q", tt.name, got, of, tt.want, tt.of)
		}
	}
}

// This tries all combinations of healthy, full and dead followers of a healthy leader, for three
// servers and five.
func TestChangesAreTakenOnlyWithAMajorityThatHasRoom(t *testing.T) {
	for _, others := range []int{2, 4} {
		for i := range int(math.Pow(3, float64(others))) {
			var rooms []int64
			var away []uint64
			well, full, state := 1, 0, ""
			for k := range others {
				kind := i / int(math.Pow(3, float64(k))) % 3
				state += string("wfd"[kind])
				rooms = append(rooms, [...]int64{1000, 0, 1000}[kind]) // a dead server had space
				switch kind {
				case 0:
					well++
				case 1:
					full++
				case 2:
					away = append(away, uint64(k+2))
				}
			}
			room, of := withRooms(rooms, away...).roomOfMajority()
			majority := (others+1)/2 + 1
			switch {
			case well+full < majority: // consensus ends the lead
				if room != unknown {
					t.Errorf("%s: room %d without a majority", state, room)
				}
			case well >= majority != (room == 1000) || len(of) == 0:
				t.Errorf("%s: room %d of %q", state, room, of)
			}
		}
	}
}

// progress returns the quorum of a leader with an applied index and a number of proposals.
func progress(applied uint64, proposals int) *quorum {
	return &quorum{Status: cluster.Status{Applied: applied, Proposals: proposals}}
}

// Waiting proposals are not a stall while others are applied.
func TestStallIsALackOfProgress(t *testing.T) {
	var s stall
	for i, tt := range []struct {
		r    *quorum
		want int
	}{
		{progress(7, 1), 0},
		{progress(7, 2), 1},
		{progress(8, 2), 0},
		{progress(8, 2), 1},
		{progress(8, 2), 2},
		{progress(8, 0), 0},
		{progress(8, 1), 0}, // the proposal may be new
		{progress(8, 1), 1},
		{nil, 0},
	} {
		if got := s.look(tt.r); got != tt.want {
			t.Errorf("look %d: %d, want %d", i, got, tt.want)
		}
	}
}

// The leader hands over only if a reachable majority without it has space, and the next leader lacks
// little of the log.
func TestFullLeaderHandsOverWhereChangesAreTaken(t *testing.T) {
	for _, tt := range []struct {
		name   string
		rooms  []int64
		gone   []uint64
		behind uint64 // lacks much of the log; zero: no server does
		want   uint64
	}{
		{"alone", nil, nil, 0, 0},
		{"one of two", []int64{500}, nil, 0, 0},
		{"one of three", []int64{100, 500}, nil, 0, 3},
		{"another is nearly full", []int64{99, 500}, nil, 0, 0},
		{"another has not said", []int64{unknown, 500}, nil, 0, 0},
		{"another is gone", []int64{300, 500}, []uint64{2}, 0, 0},
		{"the best is gone", []int64{500, 300, 200, 100}, []uint64{2}, 0, 3},
		{"the best is behind", []int64{300, 500}, nil, 3, 2},
		{"two of five are full", []int64{0, 100, 300, 200}, nil, 0, 4},
		{"three of five are full", []int64{0, 0, 300, 200}, nil, 0, 0},
	} {
		r := withRooms(tt.rooms, tt.gone...)
		r.add(99, 1<<40, false)
		r.Commit = 10_000
		for i := range r.Peers {
			if p := &r.Peers[i]; p.ID != tt.behind {
				p.Match = 9_990
			}
		}
		got := uint64(0)
		if one := r.withRoom(100); one != nil {
			got = one.ID
		}
		if got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestFullDisksAreLoggedOnce(t *testing.T) {
	members := &cluster.Members{List: []cluster.Member{{ID: 1, Name: "jobs1"}, {ID: 2, Name: "jobs2"}, {ID: 3, Name: "jobs3"}}}
	isFull := func(room int64) (full, nearly bool) { return room < 100, room < 150 }
	var f fullDisks
	for i, tt := range []struct {
		second, third int64 // their room; negative: not reported
		changes, full string
	}{
		{-1, 500, "[]", "[]"},
		{99, 500, "[{jobs2 true 99}]", "[jobs2]"},
		{98, 0, "[{jobs3 true 0}]", "[jobs2 jobs3]"},
		{120, 0, "[]", "[jobs2 jobs3]"},
		{150, 0, "[{jobs2 false 150}]", "[jobs3]"},
		{120, 0, "[]", "[jobs3]"},
		{120, 500, "[{jobs3 false 500}]", "[]"},
	} {
		var links []transport.PeerStatus
		for id, room := range map[uint64]int64{2: tt.second, 3: tt.third, 4: 0} { // the last is no member
			if room >= 0 {
				links = append(links, transport.PeerStatus{Member: transport.Member{Node: id}, Room: &room})
			}
		}
		if changes := fmt.Sprint(f.look(members, links, isFull)); changes != tt.changes {
			t.Errorf("look %d: changes %s, want %s", i, changes, tt.changes)
		}
		if full := fmt.Sprint(f.names()); full != tt.full {
			t.Errorf("look %d: full %s, want %s", i, full, tt.full)
		}
	}
}
