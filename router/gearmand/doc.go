// Package gearmand speaks Gearman's protocol, packets and lines of text, on sessions: it
// turns them into operations of shards, and replies and reports into packets. Package
// codec/gearman has the packets. cmd/manual/guide/gearman.md lists the differences from gearmand.
//
// A function is a tube, and a worker of a function is a client that watches the tube. So
// beanstalkd clients can reserve jobs of Gearman clients, and vice versa.
//
// # The life of a command
//
//	session.Session ─► conn.Input ─► command ─► run ─► submit, grab, report, …
//	                                                     │ fills core.Op, visit
//	                                            shard ◄──┘
//	session.Session ─► conn.Replied ─► then: submitted, grabbed, reported, …
//
// A connection may be client, worker and administrator at once. It runs one command at a
// time. Three fields of conn hold its next step: input takes the next bytes (a message, its
// data, or bytes to skip), then takes the reply of the pending operation, and next continues
// in a later turn, or once no shard is owned.
//
// # Mail
//
// Mail (core.Mail) brings messages that are not replies: the workers' reports about the jobs
// that the client waits for, and the news of a job for a sleeping worker, sent as NOOP. Two
// kinds of commands delay mail, which earlyMail keeps meanwhile: JOB_CREATED must precede
// all reports about its job, and a list must not be interrupted.
//
// # Ownership
//
// A conn belongs to its session, so only its event loop may use it. A Front belongs to the
// server. The connections share it and its directory of workers, which has a lock. The bytes
// of a report never change, and are stored once for all clients that have not read them; see
// conn.writeShared.
package gearmand
