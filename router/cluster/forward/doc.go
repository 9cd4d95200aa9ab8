// Package forward lets clients of a cluster connect to any of its nodes. Only the leader
// serves; any other node hands each connection on to it, byte for byte.
//
//	client ──► listener of a follower ══ a stream between nodes ══► leader's event loops
//	           Forwarder: Serve                                     Receiver: Receive
//
// A stream begins with a header that says what the client speaks and what its address is; the
// rest is the client's. Where it is plaintext the leader takes the descriptor of the stream
// itself, of which not a byte more was read than the header, so that there a client that
// came this way costs what any other does. With TLS two goroutines stand between the stream and
// one end of a pair of sockets, of which the leader takes the other.
//
// # Without a leader
//
// A client that comes while there is no leader waits, and is closed when there is none for
// long. Nothing was read of it by then, so that it is handed on as if it had come later. A
// connection that was handed on ends when another node leads: what is answered there knows
// nothing of it. Clients connect again, as they do when a server starts anew.
//
// When this node begins to lead, Release gives the listeners back, with who waits in their
// backlogs, and who waits here is given to the server by SetLeader.
//
// # What a connection costs
//
// On a follower: two descriptors, two goroutines, and no memory for bytes while none come;
// with TLS 16 KiB, on the leader as well.
// Package net would have the kernel move them by a pipe for each direction (splice), which
// takes four descriptors more, and up to 2 MiB of the kernel's memory, for as long as the
// connection is open; copying is cheap beside the two calls that either way takes. A client
// that waits for each answer waits 13 µs longer than at the leader, with TLS 28 µs, where both
// nodes share two cores (BenchmarkHop).
//
// On the leader: DescriptorsPlain of a connection, or DescriptorsSecure.
package forward
