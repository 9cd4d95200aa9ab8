// Package join brings nodes into a cluster, and those back that have fallen behind all that the
// others still have as entries: both get the whole journal of the node that leads.
//
//	new node                        leader
//	NodeID   a random id, kept
//	Ask    ── POST /cluster/join ─► Handler   a member that only follows is added: cluster.Add
//	       ◄── cluster, leader ────
//	Fetch  ── stream: Journal ────► Source    pins its journal, and sends it with who the
//	       ◄── segments ───────────           members are
//	       ─── "whole" ───────────►           keeps the pin until the node has what came meanwhile
//	Install, cluster.state
//	follows                         Promoter  has had all that was committed a second ago: votes
//
// A node that has fallen behind begins with Fetch, and is told to by its Machine. It goes on
// following meanwhile. Then it stops, has its journal exchanged, and starts anew.
//
// # What is never done
//
// An empty directory never votes under an id that has voted: the id of a node that joins is
// random, and is a member that only follows until it has caught up. If the process ends before it
// has joined, the next start goes on under the same id, which has never acknowledged anything.
//
// A log is never exchanged for an older one, by the last entry's term and then its index, as
// raft compares them for votes: see Exchange. Then nothing is lost that this node has
// acknowledged. The journal is a copy of one whose end has the term of a leader, so it has all
// that was committed in earlier terms, and whatever this node has of the same term is the
// beginning of it; and while this node has entries of a later term it keeps its own.
package join
