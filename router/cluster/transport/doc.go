// Package transport carries all traffic between the servers of a cluster over one port of each
// server. It does not interpret messages and streams.
//
// # How a connection begins
//
// Both sides send a greeting, the connecting side first. Numbers are little-endian:
//
//	0        8         10     12     13        21     29   37
//	+--------+---------+------+------+---------+------+----+------+---------+--------+
//	| magic  | version | size | kind | cluster | node | to | name | address | reason |
//	| 8 bytes| u16     | u16  | u8   | u64     | u64  | u64| each: length u8, bytes  |
//	+--------+---------+------+------+---------+------+----+------+---------+--------+
//
// size counts the bytes after it. kind says what follows: see Kind. node, name and address describe
// the sender. to is the server that the sender expects, or 0. In an answer, a reason says why the
// connection is refused; if there is none, the data of the kind follows.
//
// Both sides check the cluster, the version and the other's identity, and log the reason of a refusal.
// A greeting has limits of time and size. At most lobbyMax connections may be without a valid
// greeting: a new one replaces the oldest.
//
// # Security
//
// With certificates (Secure) every connection is TLS 1.3, and both ends show a certificate of the
// cluster's authority for their name. Without certificates every greeting is trusted. That is
// allowed only on loopback addresses, unless the operator says that the network can be trusted.
//
// # Messages
//
// Each server makes a connection of kind Raft to each other one, and only sends on it, so the two
// directions fail independently. A frame is
//
//	0      1      5
//	+------+------+---- … ----+
//	| type | size | body      |    type 1: a message; 2: the sender's clock, i64 ns; 3: bytes that
//	| u8   | u32  |           |    the sender has room for, i64
//	+------+------+---- … ----+
//
// The clock is sent every second, so a connection without frames for 10 seconds is broken. The
// receiver allocates memory for a body as its bytes arrive. Send never blocks. The transport drops
// messages that the other server does not read in time, and all messages without a connection: raft
// repeats them.
package transport
