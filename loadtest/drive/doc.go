// Package drive is what one connection of a load does, whatever is spoken on it:
// it sends requests when they are due, reads the replies, and counts them with
// their latencies.
//
//	Link      one connection: requests are appended, sent together, answered in order
//	Lane      what one actor obeys in one phase (its arrivals, its end) and counts
//	Batch     sends requests over a Link as the Lane says
//	stamps    mark bodies, so that whoever gets one back knows which it must be
//
// This is the path of every command. A load process has one core like the server
// and must not be the slower of the two, since a server that is not kept busy
// looks dearer than it is: so there is one system call less in an exchange than
// net.Conn takes, latencies are gathered before a lock is taken, and nothing is
// allocated for a command. Times are nanoseconds of Now.
//
// It imports latency alone. The protocols (beanstalkd, gearmand) read and write
// on a Link; workload makes the Lanes.
package drive
