// Package cluster makes several servers one: what its leader records is acknowledged once a
// majority has it on disk, and any other member can take over.
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
// go.etcd.io/raft/v3 decides. It is the consensus library that most systems use in production, and a
// state machine without disk, network or clock, so that a test can run whole clusters from one
// seed. A Machine is raft with what it leaves open: the lease, silence after a start, members by
// name, and the pace of proposals. It does nothing by itself: callers give it ticks and messages,
// and it returns what to do. A Node does that with goroutines, a Stepper step by step.
//
// # Guarantees
//
// A majority has each committed entry on disk, and every later leader has it at the same index. At
// most one node has a lease at any time, if the rates of all clocks differ by less than a tenth: see
// Machine.LeaseUntil. A node sends nothing that depends on something not yet on its disk.
//
// # Assumptions
//
// A disk keeps what it has synced. A node that has lost its disk must not come back under its old
// ID: it would not know how it has voted, nor what it has acknowledged.
//
// # Tests
//
// TestConsensus runs whole clusters of Steppers from one seed, with logs in memory and States on a
// disk that forgets, and TestFaultyNodesAreSeen shows that it finds planted faults. It simulates
// messages, links, clocks, pauses, power cuts (also right after a vote, and of all nodes but one at
// once), members that join, vote, move, leave and join under another ID, and hand-overs. It does not
// simulate a Node's goroutines and the transport, which have tests of their own, the journal and its
// compaction, which router/sim has, and the stream of a journal, which is a copy here.
package cluster
