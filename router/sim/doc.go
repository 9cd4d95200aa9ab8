// Package sim runs a whole server with its clients in one goroutine, on a virtual
// clock and from one seed, so that a failing history can be repeated.
//
// The scheduler creates delays: it owns shards for a while, so that operations go
// through their inboxes and the shard's next owner runs them. It delays the loops'
// wake-ups and the shards' timers, cuts the clients' input into pieces, pretends
// that clients do not read, and sets the system's clock.
// Sessions of both protocols share the tubes. A journal, if there is one, has no goroutines:
// it commits when the scheduler calls it, and its disk may stop the machine at any operation.
//
//	World     the scheduler: sockets, loops, shards, time, the journal
//	Operator  reads and changes jobs while clients work, one visit at a time
//
// Serial histories are compared with a second world of one shard without delays. The naive
// model of the core, conversations and the installed beanstalkd check the replies of one shard.
//
// # Clusters
//
// Several such servers make a cluster, still in one goroutine: the World uses the current leader,
// and changes to the next one after a failover. Consensus, journals, compaction, and the transfer
// and exchange of journals are the real code. Simulated are
//
//   - machines that stop at any operation of their disks, with or without power, pause, or stay
//     away for long, and disks that are full for a time;
//   - messages that are lost, late, duplicated and out of order, and links that are cut in one or
//     both directions;
//   - members that join with the journal of the leader, vote (also before they have all of it), are
//     removed, and are replaced under the same name; streams of journals that end early or are not
//     needed; leadership transfers on request;
//   - clients of both protocols at the leader, which lose their connections with it.
//
// Not simulated are the transport, connections that followers forward, the leader's knowledge of
// the space on other disks, disks that fail or hang, and servers with different clocks; nor
// machines that stop during a stream, because the receiver has a second goroutine. Package
// router/cluster has another simulator for consensus only, which is several times as fast. It has
// clocks that drift, compares leases with each other, and checks votes over all restarts of a
// node.
package sim
