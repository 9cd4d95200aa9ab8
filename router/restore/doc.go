// Package restore brings back, when a server starts, the jobs that it kept: it opens the
// journal, replays it into the shards, and takes over a directory that beanstalkd wrote.
//
//	Open --> beanstalkd's files beside the journal? --> journal.Recover --> core.Replay, by shard
//	     --> ids noted, the highest resumed --> the journal is started
//	     --> what was taken over is written to it, and marked as done
//
// It is called once, by who wires the server, before the shards are used by anyone else;
// it owns all of them until it returns. It knows nothing of sessions and loops, and of
// what clients speak only the format of beanstalkd's files.
//
// It imports placement and clock, shard and the journal, codec/binlog for the files and
// migrate, below it, for what is in them.
package restore
