package admin

import "time"

// ServerHeader names, in an answer, the server of a cluster that has made it, if that is another
// one than the server that was asked: the one that leads.
const ServerHeader = "Polystalk-Server"

// A Cluster is what one server knows of those that keep the same jobs.
type Cluster struct {
	ID   string `json:"id"`   // 16 hexadecimal digits
	Node string `json:"node"` // the server that answers
	Role string `json:"role"` // leader, candidate or follower

	Leader *string `json:"leader"` // name of a member; null: unknown
	Term   uint64  `json:"term"`   // of the leader: each leader has its own

	// Lease says that no other can lead meanwhile: of the leader alone.
	Lease bool `json:"lease"`

	// The last log entry that is on this disk, on the disks of a majority, and applied to
	// this server's jobs.
	LastIndex      uint64 `json:"last_index"`
	LastTerm       uint64 `json:"last_term"` // of that entry: a higher term means a newer log, then a higher index
	CommittedIndex uint64 `json:"committed_index"`
	AppliedIndex   uint64 `json:"applied_index"`

	// Journal is how the server that answers keeps the jobs itself; null: it is being read.
	Journal *Journal `json:"journal"`

	Outstanding ClusterOutstanding `json:"outstanding"`
	Totals      ClusterTotals      `json:"totals"`
	Members     []ClusterMember    `json:"members"`
	AsOf        time.Time          `json:"as_of"`
}

// A ClusterOutstanding is what the leader has proposed and what is not committed.
type ClusterOutstanding struct {
	Entries int `json:"entries"`
	Bytes   int `json:"bytes"`
}

// ClusterTotals are what has happened since the server started.
type ClusterTotals struct {
	LeaderChanges uint64 `json:"leader_changes"` // as far as it has heard of them
	LeaseLapses   uint64 `json:"lease_lapses"`   // times that it led and another might have, too
	Fetches       uint64 `json:"fetches"`        // times that others were told to fetch its journal
	Forwarded     uint64 `json:"forwarded"`      // connections of clients that it has handed to a leader
}

// A ClusterMember is one of the servers.
type ClusterMember struct {
	Name    string `json:"name"`
	ID      string `json:"id"`      // 16 hexadecimal digits, never given out again
	Address string `json:"address"` // where the others find it
	Kind    string `json:"kind"`    // voter, joining (until it has caught up) or standby
	Leads   bool   `json:"leads"`

	// Connected says that the server that answers can send to it, Trouble why not.
	Connected bool   `json:"connected"`
	Trouble   string `json:"trouble,omitempty"`

	// HeardSeconds is for how long nothing was heard of it; null: never anything was, or it is
	// the server that answers.
	HeardSeconds *float64 `json:"heard_seconds"`

	// MatchIndex is up to which entry it has the log on its disk, LagEntries how many it
	// lacks, LagSeconds for how long it has not had all that was committed. Only the leader
	// knows: they are null where another answers, and until it has heard from the server.
	MatchIndex *uint64  `json:"match_index"`
	LagEntries *uint64  `json:"lag_entries"`
	LagSeconds *float64 `json:"lag_seconds"`

	// Fetching is how far it is that the journal is sent to it; null: none is, by the server that
	// answers.
	Fetching *ClusterFetching `json:"fetching"`

	// RoomBytes is how much it can still write, as it said last; null: it never has. DiskFull says
	// that changes do not fit into that: the others do not wait for it, and with as many such that
	// a majority lacks, the leader refuses changes.
	RoomBytes *int64 `json:"room_bytes"`
	DiskFull  bool   `json:"disk_full"`

	// ClockAheadSeconds is how far its clock is ahead of the answering server's.
	ClockAheadSeconds *float64 `json:"clock_ahead_seconds"`

	// CertificateNotAfter is until when its certificate is valid, and those that stand for it, as
	// the server that answers has read them itself; of another one until when that is which it
	// showed when it was connected to last. null: there is none.
	CertificateNotAfter *time.Time `json:"certificate_not_after"`

	SentBytes     uint64 `json:"sent_bytes_total"`
	ReceivedBytes uint64 `json:"received_bytes_total"`
	Dropped       uint64 `json:"dropped_messages_total"`
}

// A ClusterFetching is a journal that is being sent to another server, which joins, or was away
// for long.
type ClusterFetching struct {
	SentBytes int64     `json:"sent_bytes"`
	AllBytes  int64     `json:"all_bytes"` // about: it grows meanwhile
	Begun     time.Time `json:"begun"`
}

// The kinds of members.
const (
	MemberVotes   = "voter"
	MemberJoins   = "joining"
	MemberStandby = "standby"
)

// A ClusterTransfer asks for another leader.
type ClusterTransfer struct {
	Node string `json:"node"` // empty: the one that has most of the log
}
