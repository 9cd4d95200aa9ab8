package http

import (
	wire "polystalk/codec/admin"
	"polystalk/shard/stats"
)

// cluster emits the tubeFamilies of a server that is one of several. What only the leader knows of
// the others is missing elsewhere.
func (e emitter) cluster(k *wire.Cluster, commits *stats.Counts) {
	for _, role := range []string{"leader", "candidate", "follower"} {
		e.gauge("cluster_role", "Whether the server leads, would like to, or follows.", truth(k.Role == role), label{"role"}, role)
	}
	e.gauge("cluster_has_leader", "Whether the server knows of one that leads.", truth(k.Leader != nil), nil)
	e.gauge("cluster_lease", "Whether the server leads and no other can.", truth(k.Lease), nil)
	e.gauge("cluster_term", "The number of the term: each leader has one of its own.", float64(k.Term), nil)
	for _, i := range []struct {
		at string
		n  uint64
	}{{"last", k.LastIndex}, {"committed", k.CommittedIndex}, {"applied", k.AppliedIndex}} {
		e.gauge("cluster_index", "Up to which entry the log is on this disk, on those of a majority, and in this server's jobs.", float64(i.n), label{"at"}, i.at)
	}
	e.rare("cluster_commit_seconds", "How long it took until changes were on the disks of a majority, each time that this server, as the leader, had some.", commits, float64(commits.Sum)/1e9, stats.HistogramSeconds, firstSync, lastSync)
	e.gauge("cluster_outstanding_entries", "Entries that the leader has proposed and that are not committed.", float64(k.Outstanding.Entries), nil)
	e.gauge("cluster_outstanding_bytes", "Their bytes.", float64(k.Outstanding.Bytes), nil)
	t := &k.Totals
	for _, c := range []struct {
		name, help string
		n          uint64
	}{
		{"cluster_leader_changes_total", "Times that the server heard of another leader.", t.LeaderChanges},
		{"cluster_lease_lapses_total", "Times that it led and another server might have, too: replies had to wait.", t.LeaseLapses},
		{"cluster_fetches_total", "Times that another server was told to fetch its journal.", t.Fetches},
		{"cluster_forwarded_total", "Connections of clients that it has handed to a leader.", t.Forwarded},
	} {
		e.counter(c.name, c.help, float64(c.n), nil)
	}
	kinds := make(map[string]int)
	for i := range k.Members {
		kinds[k.Members[i].Kind]++
		e.member(&k.Members[i], k.Members[i].Name == k.Node)
	}
	for _, kind := range []string{wire.MemberVotes, wire.MemberJoins, wire.MemberStandby} {
		e.gauge("cluster_members", "Servers of the cluster: those that vote, that catch up, and that only keep a copy.", float64(kinds[kind]), label{"kind"}, kind)
	}
}

// member emits the tubeFamilies of one member.
func (e emitter) member(m *wire.ClusterMember, self bool) {
	node := label{"node"}
	if m.MatchIndex != nil {
		e.gauge("cluster_match_index", "Up to which entry a server has the log on its disk, as the leader knows.", float64(*m.MatchIndex), node, m.Name)
	}
	if m.LagEntries != nil {
		e.gauge("cluster_lag_entries", "How many entries of the log it lacks.", float64(*m.LagEntries), node, m.Name)
	}
	if m.LagSeconds != nil {
		e.gauge("cluster_lag_seconds", "For how long it has not had all that was committed.", *m.LagSeconds, node, m.Name)
	}
	if m.RoomBytes != nil {
		e.gauge("cluster_room_bytes", "Bytes that a server can still write of its journal, as it says itself.", float64(*m.RoomBytes), node, m.Name)
		e.gauge("cluster_disk_full", "Whether changes do not fit into that.", truth(m.DiskFull), node, m.Name)
	}
	if self {
		if m.CertificateNotAfter != nil {
			e.gauge("cluster_certificate_not_after_seconds", "Until when others believe the server's own certificate, in Unix time.", float64(m.CertificateNotAfter.Unix()), nil)
		}
		return
	}
	e.gauge("cluster_connected", "Whether the server can send to another one.", truth(m.Connected), node, m.Name)
	if m.ClockAheadSeconds != nil {
		e.gauge("cluster_clock_ahead_seconds", "How far the other's clock is ahead.", *m.ClockAheadSeconds, node, m.Name)
	}
	e.counter("cluster_sent_bytes_total", "Bytes of messages to it.", float64(m.SentBytes), node, m.Name)
	e.counter("cluster_received_bytes_total", "Bytes of messages from it.", float64(m.ReceivedBytes), node, m.Name)
	e.counter("cluster_dropped_messages_total", "Messages to it that were dropped, because it did not read, or was not connected.", float64(m.Dropped), node, m.Name)
}
