// Package cluster replicates the journal of a server to others by raft. The leader acknowledges a
// change once a majority has it on disk, and any other voter can take over.
//
//	          from peers            own proposals (journal: one batch, one entry)
//	              │                     │
//	              ▼                     ▼
//	            ┌──────────────────────────┐   Send     ┌───────────┐
//	every tick ►│         Machine          ├───────────►│ transport │
//	            └─┬─────────────▲────────┬─┘            └─────▲─────┘
//	       Append │             │ Done   │ Apply              │ what depends on the disk:
//	              ▼             │        ▼                    │ votes, entries
//	            ┌───────────────┴──┐   ┌────────────────────┐ │
//	            │ Disk: log, State ├─┐ │ Applier: a Replica │ │
//	            └──────────────────┘ │ └────────────────────┘ │
//	                                 └────────────────────────┘
//
// go.etcd.io/raft/v3 is the consensus library that most systems use in production. It is a state
// machine without disk, network or clock, so that a test can run whole clusters from one seed. A
// Machine adds what raft leaves open: the lease, the silence after a start, and members with names.
// It only decides: callers give it ticks and messages, and it returns the work to do. A Node does
// this work with goroutines, a Stepper step by step.
//
// # Guarantees
//
// A majority has each committed entry on disk, and every later leader has it at the same index. At
// most one node has a lease at any time, if the rates of all clocks differ by less than a tenth: see
// lease.go. A node sends no message that depends on data that is not on its disk yet.
//
// # Assumptions
//
// A disk keeps synced data. A node that has lost its disk must not return under its old ID: it would
// know neither its votes nor the entries that it has acknowledged.
//
// # Tests
//
// TestConsensus runs whole clusters of Steppers from one seed, with logs in memory and States on a
// simulated disk. TestFaultyNodesAreSeen shows that it finds planted faults. It does not simulate
// the goroutines of a Node, the transport, or the journal and its compaction: router/sim has these.
package cluster
