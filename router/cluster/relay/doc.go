// Package relay hands requests of operators on from a server of a cluster that follows to the
// one that leads, which alone has the queue: both ends are HTTP, between them are streams of the
// cluster's own, so that there is no further port, address or certificate.
//
//	operator ─► web.Server of a follower ─► Relay.Ask ══ a stream ══► web.Server of the leader
//	            who asks, and may he                                what he asks for
//
// The follower has found out who asks and what he may do before it hands a request on, and says
// so in it; the leader takes its word, as it takes the log's, since whoever may speak on a
// stream of the cluster can write to that. Both of it is package web's: this one carries
// requests, and knows who leads.
//
// # What was perhaps done
//
// A request that only looks may go over a connection that was used before, and is sent again by
// net/http if that has just ended. One that changes something has a connection of its own,
// which net/http never repeats. If that cannot be made, nothing was done, and the problem says
// that it may be sent again; if it breaks before the answer, it is not known what was done, and
// the problem says that. When another server leads, the one before it has some time to answer
// what it was asked before, since it may just have been asked to hand over.
//
// # Bounds
//
// A follower hands Max requests on at a time, and refuses more at once: none waits for another.
// Half of that is for streams, which last as long as somebody looks at a page, so that changes
// find a seat. A connection that cannot be made ends after some seconds, but not with the request
// that it was for; of those, too, there are no more than so many. The leader serves as many streams of this kind as the transport has seats, besides the
// connections of its own operators. A connection that nobody uses is kept for IdleMax.
package relay
