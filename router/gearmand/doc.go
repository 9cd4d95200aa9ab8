// Package gearmand speaks Gearman's protocol, packets and lines of text, on sessions: it
// turns them into operations of shards, and replies and reports into packets. What a
// packet is says package codec/gearman; which commands gearmand has, and where we differ,
// says the README of that package.
//
// A function is a tube, and a worker of it a client that watches that tube. So jobs that
// were submitted here are reserved by beanstalkd's clients too, and the other way round.
//
// # The life of a command
//
//	session.Session ─► conn.Input ─► command ─► run ─► submit, grab, report, …
//	                                                     │ fills core.Op, visit
//	                                            shard ◄──┘
//	session.Session ─► conn.Replied ─► then: submitted, grabbed, reported, …
//
// A connection may be client, worker and administrator at once; one command of it is under
// way at a time. Three functions say what is next on it: input takes the next bytes (a
// message, the data behind one, or what is thrown away), then takes the reply of the
// operation under way, and next goes on in a later turn, or once no shard is owned.
//
// # Mail
//
// What a connection is told between answers comes as mail (core.Mail): what workers report
// about the jobs that it waits for, and that a job came while it slept, which is said by
// NOOP. Two kinds of commands have it wait, which earlyMail keeps: JOB_CREATED comes before
// any report about its job, and a list is not interrupted.
//
// # Ownership
//
// A conn is its session's, so it belongs to an event loop and is touched only there. A
// Front is the server's, and what its connections share: the directory of workers, which
// has a lock of its own. Bytes of reports never change and are kept once for all clients
// that do not read them; see conn.writeShared.
package gearmand
