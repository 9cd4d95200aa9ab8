// Package bootstrap makes one cluster of new servers that start at once, with equal flags.
//
// Each server has the same list of addresses. It asks all of them, again and again, until one of these
// cases is there:
//
//	an answer                                           the server
//	belongs to a cluster that this server founds        adopt: begins as a founding member
//	belongs to another cluster                          join: as with --cluster-join
//	is missing, or disagrees about the list             wait, and say why
//	all agree, and this server is not bound             bind its ID to the list and the first server
//	all agree, and this server is bound otherwise       discard its ID: the process starts again
//	all agree and are bound to this server              found: make the cluster
//
// The first server has the first address of the sorted list. decide is a pure function of the answers;
// Run asks and writes.
//
// # What is written
//
// A new server has a random ID in cluster.joining before it answers anything. To bind the ID, it writes
// the digest of the list and of the first server's ID into the same file. An ID is bound once. A lost
// disk, another list or another first server needs a new ID. To found or to adopt is to write
// cluster.state: a random cluster ID, all servers as voters, an empty log and no vote. Every write is
// durable before the server tells others of it.
//
// # Why there is one cluster
//
// An ID belongs to the founding members of one cluster at most. A server founds only with IDs that are
// bound to its own ID, and an ID is bound once. A server founds once: after the write it belongs to a
// cluster, and before the write nobody has heard of the attempt. So late and repeated answers do no
// harm, and neither does a first server that still runs after another one has taken its address.
//
// Assume that a cluster has acknowledged a change, and that another is made from the same list, or from
// a list with a majority of the same servers. The change is on the disks of a majority of the founding
// members, or of the members that took their places. At least one of these servers has to agree to the
// second cluster. Its disk then has an ID that is bound to the other first server, and has no cluster.state.
// An ID that has adopted a cluster is never bound again, so that disk was lost. If no majority of the
// disks is lost, one of these servers still answers that it belongs to the first cluster.
//
// A founding member that adopts has never voted or acknowledged anything: its ID has never had a
// cluster.state. To raft it is a voter that was cut off since the beginning. The founding members
// are in cluster.state for it, because the log replays all later changes of the members. It gets
// entries or the leader's journal like any follower. The others give the founding members only to a
// server that still is a voter. One that was removed is bound, so it takes a new ID and joins.
//
// A server with a lost disk has an ID that no cluster knows. It joins, which the leader refuses while
// the old member has the name. An operator decides that the old disk is lost: polystalk cluster remove.
//
// # What needs an operator
//
// A server discards its ID after two rounds in which all others answer without a cluster. If one of
// them adopts a cluster just then, and the first server has lost its disk since it made the cluster,
// that cluster may never have a majority. It has acknowledged nothing. The operator empties the
// directories of its servers.
//
// # Assumptions
//
// No process runs on a copy of a directory, and a disk keeps synced data: see package cluster. Lists
// with fewer common servers than a majority are lists of different clusters.
//
// # Tests
//
// The simulation kills servers between any two writes, loses disks and messages, changes lists, and lets
// a first server run beside the one that replaces it. Faulty decisions are found.
package bootstrap
