// Package cluster makes one server of several: what its leader records is acknowledged once
// it is on the disks of a majority, and any other member can take over.
//
//	          from peers            own proposals (journal: one batch, one entry)
//	              │                     │
//	              ▼                     ▼
//	            ┌──────────────────────────┐   Send     ┌───────────┐
//	every tick ►│         Machine          ├───────────►│ transport │
//	            └─┬─────────────▲────────┬─┘            └─────▲─────┘
//	       Append │             │ Done   │ Apply              │ what a disk has promised:
//	              ▼             │        ▼                    │ votes, entries
//	            ┌───────────────┴──┐   ┌────────────────────┐ │
//	            │ Disk: log, State ├─┐ │ Applier: a Replica │ │
//	            └──────────────────┘ │ └────────────────────┘ │
//	                                 └────────────────────────┘
//
// The decisions are those of go.etcd.io/raft/v3, because consensus is nothing to write
// oneself: it is the one that most systems run in earnest, and it is a state machine without
// disk, network or clock, so that whole clusters run in a test from one seed. A Machine is that
// with what it leaves open: the lease, silence after a start, members by name, and the pace of
// proposals. It does nothing by itself: it is told of ticks and messages, and says what is to
// be done. A Node does that with goroutines, a Hand for who does it step by step.
//
// # What is promised
//
// An entry that a Machine says is committed is on the disks of a majority, and every later
// leader has it at the same index. At most one node holds a lease at any time, as long as the
// clocks of all run at rates that differ by less than a tenth: see Machine.LeaseUntil. Nothing
// is sent that depends on something not yet on this disk.
//
// # What is supposed
//
// A disk keeps what it has synced. A node that has lost it must not come back under its old
// id: it would not know how it has voted, nor what it has acknowledged.
//
// # How that is known
//
// TestConsensus runs whole clusters of Hands from one seed, with logs in memory and State on a disk
// that forgets, and TestFaultyNodesAreSeen shows that it sees what must not be done. Simulated are
// messages, links, clocks, pauses, power cuts (also right behind a vote, and of all but one at
// once), members that come, vote, move, go and come back under another id, and hand-overs. Not
// simulated are a Node's goroutines and the transport, which have tests of their own, the journal
// and its compaction, which router/sim has, and the stream of a journal, which is a copy here.
package cluster
