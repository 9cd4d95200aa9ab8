// Package sim runs a whole server, its routers, shards and clients, in one
// goroutine, on a virtual clock and from one seed, so that a history that
// breaks something can be run again.
//
// Lateness is made, not awaited: the scheduler owns shards for a while, so
// that operations go through their inboxes and are run by the shard's next owner;
// it puts off the loops' wake-ups and the shards' timers, cuts what clients
// send into pieces, pretends that they do not read, and sets the system's clock.
// Sessions of both protocols share the tubes. A journal, if there is one, has no goroutines:
// it commits when the scheduler says so, and its disk may stop the machine at any operation.
//
//	World     the scheduler: sockets, loops, shards, time, the journal
//	Operator  reads and changes beside the clients, one visit at a time
//
// Serial histories are compared with a second world of one shard, where nothing is late: the
// naive twin of the core, conversations and the installed reference judge what one shard replies.
//
// # Clusters
//
// Several such servers make a cluster, still in one goroutine: the World has whichever leads, and
// goes to the next one when that leads no longer. The consensus, the journals, what they compact,
// and how a journal is fetched and exchanged are the real ones. Simulated are
//
//   - machines that stop at any operation of their disks, with or without power, stand still, stay
//     away for long, and disks that are full for a time;
//   - messages that are lost, late, doubled and out of order, and links that are cut, in one
//     direction or both;
//   - members that join with the journal of the leader, vote (also before they have all of it), are
//     removed, and are replaced under the same name; streams of journals that end early, and ones
//     that nobody needed; hand-overs on demand;
//   - clients of both protocols at the leader, which lose their connections with it.
//
// Not simulated are the transport, connections that followers hand on, what leaders learn of the
// room on others' disks, disks that fail or hang, and clocks of servers that differ; nor that a
// machine stops during a stream, because the receiver has a second goroutine. The consensus has
// a simulator of its own in router/cluster. That one has no servers and is several times as
// fast; it has clocks that drift, compares leases with each other, and checks votes over all
// restarts of a node.
package sim
