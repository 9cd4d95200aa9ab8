// Package restore brings back, when a server starts, the jobs that it kept: it opens the
// journal, replays it into the shards, and takes over a directory that beanstalkd wrote.
//
//	Recover --> beanstalkd's files beside the journal? --> journal.Recover --> core.Replay, by shard
//	        --> the journal is open: its files are ready
//	Follow  --> the shards are in order; ids noted, the highest resumed
//	Lead    --> the replays are done, the journal leads
//	        --> what was taken over is written to it, and marked as done
//
// Each is called once, by who wires the server, before the shards are used by anyone else;
// a Recovery owns all of them until it leads. It knows nothing of sessions and loops, and of
// what clients speak only the format of beanstalkd's files.
//
// Records and JobOf translate between beanstalkd's jobs and the journal's records.
package restore
