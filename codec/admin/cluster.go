package admin

import "time"

// ServerHeader names the leader in an answer that a follower has forwarded.
const ServerHeader = "Polystalk-Server"

// A Cluster is the state of the cluster, as one server knows it.
type Cluster struct {
	ID   string `json:"id"`   // 16 hexadecimal digits
	Node string `json:"node"` // the server that answers
	Role string `json:"role"` // leader, candidate or follower

	Leader *string `json:"leader"` // name of a member; null: unknown
	Term   uint64  `json:"term"`   // of the leader: each leader has its own

	Lease bool `json:"lease"` // this server leads, and no other server can

	// The last log entry on this disk, on the disks of a majority, and applied to the jobs.
	LastIndex      uint64 `json:"last_index"`
	LastTerm       uint64 `json:"last_term"` // the newer log has the higher term, then the higher index
	CommittedIndex uint64 `json:"committed_index"`
	AppliedIndex   uint64 `json:"applied_index"`

	// Journal is the journal of the server that answers; null: it is still being read.
	Journal *Journal `json:"journal"`

	Outstanding ClusterOutstanding `json:"outstanding"`
	Totals      ClusterTotals      `json:"totals"`
	Members     []ClusterMember    `json:"members"`
	AsOf        time.Time          `json:"as_of"`
}

// A ClusterOutstanding counts the entries that the leader has proposed and that are not committed.
type ClusterOutstanding struct {
	Entries int `json:"entries"`
	Bytes   int `json:"bytes"`
}

// ClusterTotals count events since the server started.
type ClusterTotals struct {
	LeaderChanges uint64 `json:"leader_changes"` // that the server has seen
	LeaseLapses   uint64 `json:"lease_lapses"`   // times that the leader lost its lease
	Fetches       uint64 `json:"fetches"`        // times that another server was told to fetch its journal
	Forwarded     uint64 `json:"forwarded"`      // client connections forwarded to a leader
}

// A ClusterMember is one of the servers.
type ClusterMember struct {
	Name    string `json:"name"`
	ID      string `json:"id"`      // 16 hexadecimal digits, never used again
	Address string `json:"address"` // for the other servers
	Kind    string `json:"kind"`    // voter, joining (until it has caught up) or standby
	Leads   bool   `json:"leads"`

	// Connected: the server that answers can send to this member; Trouble says why not.
	Connected bool   `json:"connected"`
	Trouble   string `json:"trouble,omitempty"`

	// HeardSeconds is the time since the member's last message; null: there was none, or the
	// member is the server that answers.
	HeardSeconds *float64 `json:"heard_seconds"`

	// MatchIndex is the last log entry on the member's disk. LagEntries and LagSeconds are its
	// replication lag. They are null except on a leader that has heard from the member.
	MatchIndex *uint64  `json:"match_index"`
	LagEntries *uint64  `json:"lag_entries"`
	LagSeconds *float64 `json:"lag_seconds"`

	// Fetching is the journal that the member fetches from the server that answers; null: none.
	Fetching *ClusterFetching `json:"fetching"`

	// RoomBytes is the last reported space on the member's disk; null: it was not reported.
	// DiskFull: changes do not fit, so the leader does not wait for this member. If the servers
	// with space are no majority, the leader refuses changes.
	RoomBytes *int64 `json:"room_bytes"`
	DiskFull  bool   `json:"disk_full"`

	// AccessDigest is a digest of the rules in the member's access file: the beginning of the digest
	// that its log shows, or none for a server without one; null: it was not reported. AccessDiffers:
	// it is not the leader's.
	AccessDigest  *string `json:"access_digest"`
	AccessDiffers bool    `json:"access_differs"`

	ClockAheadSeconds *float64 `json:"clock_ahead_seconds"` // of the answering server's clock

	// CertificateNotAfter is the expiry of the member's certificate chain: from the files of the
	// server that answers, or from the last connection to another server. null: there is none.
	CertificateNotAfter *time.Time `json:"certificate_not_after"`

	SentBytes     uint64 `json:"sent_bytes_total"`
	ReceivedBytes uint64 `json:"received_bytes_total"`
	Dropped       uint64 `json:"dropped_messages_total"`
}

// A ClusterFetching is the transfer of a journal to a server that joins or was down for long.
type ClusterFetching struct {
	SentBytes int64     `json:"sent_bytes"`
	AllBytes  int64     `json:"all_bytes"` // approximately: the journal grows meanwhile
	Begun     time.Time `json:"begun"`
}

// The kinds of members.
const (
	MemberVotes   = "voter"
	MemberJoins   = "joining"
	MemberStandby = "standby"
)

// A ClusterTransfer makes another server lead.
type ClusterTransfer struct {
	Node string `json:"node"` // empty: the server with the newest log
}
