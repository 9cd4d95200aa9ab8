package member

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/router/cluster"
	"polystalk/router/cluster/transport"
)

// quorumOf returns the quorum of jobs1, which leads voters voters and jobs9, a learner. It is not
// connected to the servers in away.
func quorumOf(voters uint64, away ...uint64) *quorum {
	q := &quorum{self: 1, within: 2 * time.Second}
	q.Members = new(cluster.Members)
	for id := uint64(1); id <= voters; id++ {
		q.add(id, unknown, true)
	}
	q.add(9, unknown, false)
	for i := range q.links {
		q.links[i].ConnectedTo = !slices.Contains(away, q.links[i].Node)
	}
	return q
}

// unknown is the room of a server that never reported it: no limit.
const unknown = math.MaxInt64

// add adds a member with room free bytes on its disk.
func (q *quorum) add(id uint64, room int64, votes bool) {
	q.Members.List = append(q.Members.List, cluster.Member{ID: id, Name: fmt.Sprint("jobs", id), Voter: votes})
	if id == q.self {
		return
	}
	p := transport.PeerStatus{Member: transport.Member{Node: id}, ConnectedTo: true}
	if room != unknown {
		p.Room = &room
	}
	q.links = append(q.links, p)
	q.Peers = append(q.Peers, cluster.Peer{ID: id, Heard: time.Second})
}

// isRefused reports whether an error is a problem with all of these texts.
func isRefused(err error, says ...string) bool {
	p, ok := errors.AsType[*wire.Problem](err)
	if !ok || p.Status != 409 || p.Type != wire.ProblemPath+wire.NotChanged.Slug || p.Field != "node" {
		return false
	}
	for _, s := range says {
		if !strings.Contains(p.Detail+": "+p.Remedy, s) {
			return false
		}
	}
	return true
}

// A change is refused if, and only if, it leaves a cluster without a reachable majority.
func TestMajorityIsKept(t *testing.T) {
	for _, tt := range []struct {
		voters uint64
		away   []uint64
		kind   cluster.ChangeKind
		node   uint64
		says   []string // nil: the change is allowed
	}{
		{3, nil, cluster.Remove, 2, nil},
		{3, []uint64{3}, cluster.Remove, 2, []string{"without jobs2 ", "without jobs3:", "start jobs3", "polystalk cluster remove jobs3"}},
		{3, []uint64{3}, cluster.Remove, 3, nil},
		{3, []uint64{3}, cluster.Remove, 9, nil}, // it does not vote
		{3, []uint64{3}, cluster.Remove, 1, nil}, // consensus refuses it
		{3, []uint64{3}, cluster.Remove, 7, nil}, // likewise
		{2, nil, cluster.Remove, 2, nil},
		{2, []uint64{2}, cluster.Remove, 2, nil}, // the leader alone is left
		{5, []uint64{4, 5}, cluster.Remove, 4, nil},
		{5, []uint64{4, 5}, cluster.Remove, 3, []string{"without jobs4, jobs5:", "start jobs4, jobs5 first"}},
		{5, []uint64{5}, cluster.Remove, 3, nil},
		{1, nil, cluster.Promote, 9, nil},
		{1, []uint64{9}, cluster.Promote, 9, []string{"if jobs9 voted", "start jobs9 first"}},
		{3, []uint64{9}, cluster.Promote, 9, nil},
		{3, []uint64{3, 9}, cluster.Promote, 9, []string{"jobs3, jobs9"}},
	} {
		err := quorumOf(tt.voters, tt.away...).checkChange(cluster.Change{Kind: tt.kind, Member: cluster.Member{ID: tt.node}})
		if tt.says == nil && err != nil || tt.says != nil && !isRefused(err, tt.says...) {
			t.Errorf("%d voters without %v, %d of jobs%d: %v, want %q", tt.voters, tt.away, tt.kind, tt.node, err, tt.says)
		}
	}
	silent := quorumOf(3)
	silent.Peers[1].Heard = 3 * time.Second
	if err := silent.checkChange(cluster.Change{Kind: cluster.Remove, Member: cluster.Member{ID: 2}}); !isRefused(err, "jobs3") {
		t.Errorf("connected, and silent: %v", err)
	}
	var follower *quorum
	if err := follower.checkChange(cluster.Change{Kind: cluster.Remove, Member: cluster.Member{ID: 2}}); err != nil {
		t.Errorf("at a follower, which the node refuses: %v", err)
	}
}

// A transfer to a server that cannot be reached, or has a full disk, is refused without an outage.
func TestUnreachableServerCannotLead(t *testing.T) {
	full := func(room int64) bool { return room < 100 }
	r := quorumOf(3, 3)
	if err := r.checkLeader(r.Members.Find(2), full); err != nil {
		t.Error(err)
	}
	if err := r.checkLeader(r.Members.Find(3), full); !isRefused(err, "jobs3 cannot be reached", "start it") {
		t.Error(err)
	}
	for room, says := range map[int64]string{99: "the disk of jobs2 is full", 100: ""} {
		r.links[0].Room = &room
		if err := r.checkLeader(r.Members.Find(2), full); says != "" != (err != nil) || err != nil && !isRefused(err, says, "free space there") {
			t.Errorf("with room for %d bytes: %v", room, err)
		}
	}
	r.Peers[0].Heard = 3 * time.Second
	if err := r.checkLeader(r.Members.Find(2), full); !isRefused(err, "jobs2 cannot be reached") {
		t.Errorf("connected, and silent: %v", err)
	}
}

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
	var out strings.Builder
	log := slog.New(slog.NewTextHandler(&out, nil))
	members := &cluster.Members{List: []cluster.Member{{ID: 1, Name: "jobs1"}, {ID: 2, Name: "jobs2"}, {ID: 3, Name: "jobs3"}}}
	isFull := func(room int64) (full, nearly bool) { return room < 100, room < 150 }
	var f fullDisks
	for i, tt := range []struct {
		second, third int64  // their room; negative: not reported
		want          string // the end of the line in the log, which begins with its level; empty: no line
	}{
		{-1, 500, ""},
		{99, 500, "WARN node=jobs2 room=99"},
		{98, 0, "WARN node=jobs3 room=0"},
		{120, 0, ""},
		{150, 0, "INFO node=jobs2 room=150"},
		{120, 0, ""},
		{120, 500, "INFO node=jobs3 room=500"},
	} {
		var links []transport.PeerStatus
		for id, room := range map[uint64]int64{2: tt.second, 3: tt.third, 4: 0} { // the last is no member
			if room >= 0 {
				links = append(links, transport.PeerStatus{Member: transport.Member{Node: id}, Room: &room})
			}
		}
		out.Reset()
		f.look(members, links, isFull, log)
		level, end, _ := strings.Cut(tt.want, " ")
		if got := out.String(); end == "" && got != "" || !strings.Contains(got, level) || !strings.HasSuffix(strings.TrimSpace(got), end) || strings.Count(got, "\n") > 1 {
			t.Errorf("look %d: %q, want %q", i, got, tt.want)
		}
	}
}
