// Package forward carries clients' connections and operators' requests from a follower to the
// leader. Only the leader serves; clients may connect to any server.
//
//	client ──► listener of a follower ══ a stream between servers ══► leader's event loops
//	           Forwarder: Serve                                       Receiver: Receive
//
//	operator ─► web.Server of a follower ══ a stream, HTTP ══► web.Server of the leader
//	            Relay: Ask
//
// A client's stream begins with a header: the protocol, and the client's address and identity. The
// client's bytes follow unchanged. An event loop of the leader adopts the stream: such a client costs
// as much as any other, with TLS between servers as much as a client with TLS.
//
// The follower has the client's handshake and certificate, user or network, so it identifies the
// client. The leader trusts the name, gives it the rights of its own access file, and checks tokens
// itself. If a change of the follower's file gives the client another identity, the follower ends the
// connection.
//
// # Without a leader
//
// A new client waits. Its connection is closed unread if there is no leader in time. A forwarded
// connection ends when another server leads, which does not know the connection's state. Clients
// reconnect, as after a restart. When this server begins to lead, Release gives the listeners back
// with their backlogs, and SetLeader gives the waiting clients to this server.
//
// # Cost
//
// On a follower a connection takes two descriptors, two goroutines, and no buffer while it is idle;
// with TLS 16 KiB. Package net would splice through pipes: four more
// descriptors and up to 2 MiB of kernel memory per connection, to save a cheap copy. A reply takes
// 13 µs longer than at the leader, with TLS 28 µs, if both servers share two cores.
//
// # Requests that may have been executed
//
// The follower authenticates an operator, and adds the identity and permissions to the request. The
// leader trusts that, as it trusts the follower's messages of consensus.
//
// A request that only reads may reuse a connection, and net/http retries it if the connection has
// just ended. A change has its own connection and is never retried. The problem says whether the
// change may have been made: if there was no connection, it was not. A deposed leader still has some
// time to answer: the request may be the one that deposed it.
package forward
