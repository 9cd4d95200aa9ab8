// Package relay puts a network that can be broken between two programs of a test: who would
// connect to one of them connects to a Relay, which hands the bytes on. Each direction can
// be held or delayed by itself, all connections can be reset, new ones refused.
//
//	dialer ──Out──► relay ──Out──► target
//	       ◄─Back──       ◄─Back──
//
// A direction that is held is what a partition is to a program: nothing arrives, neither
// bytes nor the end of a connection, and nothing is lost, since TCP sends again what was
// not acknowledged. Once it is passed on again everything comes, in order and late. Where
// the system under test gives up earlier, it says so by a reset or an end, which is held
// back like all else.
//
// Of a relay that holds Out, new connections are accepted and not made to the target: the
// kernel accepts before the relay can be asked. A dialer that wants to notice has to wait
// for an answer, as it has to on a network that loses packets.
//
// Between any two of n programs stands a relay of its own, for each one that connects, if
// partitions of some and not of others are wanted.
package relay
