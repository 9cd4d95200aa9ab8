// Package forward carries clients' connections and operators' requests from a follower to the
// leader. Only the leader serves; clients may connect to any server.
//
//	client ──► listener of a follower ══ a stream between servers ══► leader's event loops
//	           Forwarder: Serve                                       Receiver: Receive
//
//	operator ─► web.Server of a follower ══ a stream, HTTP ══► web.Server of the leader
//	            Relay: Ask
//
// A client's stream begins with a header: the protocol and the client's address. The bytes of the
// client follow unchanged. If the stream is plaintext, the leader adopts its descriptor, from which
// only the header was read: there such a client costs what any other does. With TLS two
// goroutines copy between the stream and a socket pair, and the leader adopts its other end.
//
// # Without a leader
//
// A new client waits, and is closed if there is no leader in time. Nothing was read from it. A
// forwarded connection ends when another server leads, which knows nothing of the connection's
// state. Clients reconnect, as they do when a server restarts.
//
// When this server begins to lead, Release gives the listeners back with the clients in their
// backlogs, and SetLeader gives the waiting clients to this server.
//
// # Cost
//
// On a follower a connection takes two descriptors, two goroutines, and no buffer while it is idle;
// with TLS 16 KiB, on the leader as well. Package net would splice through pipes: four more
// descriptors and up to 2 MiB of kernel memory per connection, to save a cheap copy. A reply takes
// 13 µs longer than at the leader, with TLS 28 µs, if both servers share two cores (BenchmarkHop).
//
// # Requests that may have been executed
//
// The follower authenticates an operator, and adds its identity and permissions to the request;
// package web writes and reads that. The leader trusts it, as it trusts the follower's messages of
// consensus.
//
// A request that only reads may use a connection again, and net/http repeats it if the connection
// has just ended. A change has a connection of its own and is never repeated. The problem says
// whether it may have been made: if the connection could not be made, nothing was done. A deposed
// leader has some time to answer: the request may have been to hand over.
package forward
