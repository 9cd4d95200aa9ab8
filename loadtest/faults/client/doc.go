// Package client has the clients that a history is taken of: producers and workers of
// beanstalkd's protocol and of Gearman's, which go on whatever becomes of the servers.
//
//	Crew     all clients of a run, and how often one was answered wrongly
//	Pause    the longest time in which no put was acknowledged anywhere
//	conn     one connection of either protocol, with its history.Session
//
// A client dials any of the nodes. When its connection breaks, or no answer has come in
// time, it tells the history what it has sent and not been answered, and dials another.
// A put is never sent again: it would be another job. What a client does next is drawn
// from a seed, but what meets what is the machine's doing: a run cannot be repeated.
//
//	producer   puts one at a time, or many in one write
//	worker     reserves, and deletes, releases, buries, touches, or lets the TTR pass
//	kicker     kicks buried and delayed jobs by their ids, and one tube's by their number
//	submitter  submits Gearman's background jobs
//	grabber    does them; it is never told whether a completion was taken, so all its
//	           deletes are in doubt
//	Drain      looks at what is left when all others have ended, and takes it out
//
// It imports codec/gearman, history, and drive for stamps and the clock.
package client
