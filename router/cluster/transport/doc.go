// Package transport carries everything that goes between the nodes of a cluster over one
// port of each: the messages of consensus, connections of clients that are handed on, the
// journal for a node that has none, and what operators ask. It knows nothing of what it
// carries: messages and streams are bytes.
//
// # How a connection begins
//
// Who connects greets, and who is connected to answers with a greeting of the same form;
// numbers are little-endian:
//
//	0        8         10     12     13        21     29   37
//	+--------+---------+------+------+---------+------+----+------+---------+--------+
//	| magic  | version | size | kind | cluster | node | to | name | address | reason |
//	| 8 bytes| u16     | u16  | u8   | u64     | u64  | u64| each: length u8, bytes  |
//	+--------+---------+------+------+---------+------+----+------+---------+--------+
//
// size is that of all behind it. kind says what follows: see Kind. node and name are who
// says it, address is where it listens, to is who is meant, or 0. In an answer a reason
// says why the connection is refused, and is empty where it is not; then what follows
// belongs to the kind.
//
// Both sides check the cluster and who the other should be. A node of another cluster, of
// another version, under another name, or anything that is no node is refused with one
// reason, which both sides log, once a second at most. A greeting has a time limit, its size
// one before anything is kept of it, and of those who have not been let in yet only so many
// are kept: the one that has waited longest goes for the one that comes.
//
// # Who may come
//
// With certificates (Secure) every connection is TLS 1.3, and both ends show one that the
// cluster's authority has signed for the name that they say. Without, whoever reaches the
// port is believed; so that is for this machine only, unless the operator says that the
// network is to be trusted.
//
// # Messages
//
// Each node makes a connection of kind Raft to each other one, and sends on it; it is never
// answered there. So one direction can fail by itself, and is noticed by itself. A frame is
//
//	0      1      5
//	+------+------+---- … ----+
//	| type | size | body      |    type 1: a message; 2: the sender's time of day, i64 ns
//	| u8   | u32  |           |
//	+------+------+---- … ----+
//
// A frame of type 3 tells how many bytes the sender has room for, i64, if it says so. The time
// goes along every second: who hears nothing at all for a while knows that the
// other end is gone, and how far the two clocks are apart. A body is read piece by piece as
// it comes, so that nothing is allocated for a size that is only said.
//
// Send never waits. What a node does not take in time is dropped, as the network may drop
// anything: consensus sends again. A queue has room for so many messages and bytes; with no
// connection there is no queue at all, except while one is being made.
package transport
