// Package history judges what clients of job servers were told, while servers are
// killed, stopped and cut off: whether any of it can be true of a queue that loses
// nothing and does nothing twice.
//
//	History    all jobs of a run, by the token that each body begins with
//	Session    one connection: what it holds, and until when that is certain
//	Violation  what no correct server would have answered
//
// Every command has a time at which it was invoked and one at which it was answered;
// when it took effect lies between. A command whose answer never came is in doubt: it
// may have taken effect at any time, or never. What follows of that is all that is
// judged, so a rule is broken only if no order of events explains the answers:
//
//	Lost      a put was acknowledged, no delete could have removed the job, and it is not there
//	Late      RESERVED invoked after DELETED was answered
//	Back      the same at the end of the run, with nobody else there
//	Unwanted  a put that was refused, and its job is there
//	Altered   bytes other than those that were put
//	Changed   another tube, priority or TTR, or a state that it cannot have
//	IDTwice   an id that two jobs were given, or a job with two ids
//	Overlap   two clients held the job at once
//	Disowned  who holds the job for certain was told that it does not
//	Early     a delayed job was handed out before its time
//	Unburied  a buried job was handed out that nobody had kicked
//	Stranger  a job that nobody put
//
// A reservation is certain from its answer to the last command that the same
// connection had answered afterwards, and not beyond the job's TTR. No connection
// outlives the leader that it leads to, so no change of leader excuses an overlap, and
// the rules need not know of one.
//
// What is told comes from many goroutines, late by as much as they were not run. Hence
// the protocol of use: what allows a thing (Putting, Kicking) is told before it is
// sent, what forbids one (an answer) after it has come. Between two answers of which
// neither was invoked after the other came, nothing is concluded.
//
// A job costs 48 bytes for the whole run, and an id four; what is known of it beyond
// is kept from its first reservation until it is deleted. The package keeps no clock,
// starts nothing, and imports none of the load tester's packages but drive, for stamps.
package history
