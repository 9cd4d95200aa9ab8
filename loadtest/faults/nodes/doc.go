// Package nodes has the servers that faults are done to: processes on this machine,
// each with its directory, its addresses and its log, alone or as one cluster.
//
//	Fleet   all nodes of a run, and what lies between them
//	Node    one server: started, killed, stopped, removed, started again
//	Wires    what lies between nodes, and can be cut in one direction
//
// A node's program may be another one at each start, so that releases can be mixed. All
// processes end with this one, whatever ends it, and Close ends them before that. What a
// node prints is in its log; that it has ended without being told to is an Accident.
//
// A partition is made by relays, because the kernel's own means need its netfilter or
// netem, which not every machine has: each node is told to connect to a relay of its own
// wherever it would connect to another node.
//
// Operators' requests go to the socket in a node's directory. A node may have a disk of its
// own, so that it can be filled.
//
// It imports proc, codec/wiretest/relay, and codec/admin.
package nodes
