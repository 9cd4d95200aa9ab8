// Package snapshot moves a whole journal from one node to another, or into a backup.
//
// A journal is the snapshot of what it tells of: compaction sees to it that what is on the disk
// is the end of the history, from which everything that lives can be had back. So nothing is
// made for who needs all of it: the sender's segments are sent as they are, byte for byte, while
// its journal goes on, and the receiver starts from them as it would from its own.
//
//	Send     pin ─► segments, oldest first ─► frames ─► io.Writer
//	Receive  io.Reader ─► frames ─► incoming.* ─► all of it read again, and found whole
//	         └─► Install: exchanged for the journal that is there ─► the next start reads it
//
// What was not received to its end, or is not whole, is removed; the journal that was there
// stays. See package exchange for what an end of the process at any moment comes to.
//
// # Frames
//
//	type u8 | length u32 | crc u32 | length bytes
//
// Numbers are little-endian. The checksum is a CRC-32C of all of the frame but itself. No frame
// is longer than frameMax, whatever its length says, and what a receiver keeps of one it keeps
// in a buffer of that size.
//
//	hello    "polysnap" | version u8 | bytes u64     what is to come, about
//	note     bytes                                    what the receiver must know besides
//	segment  number u64                               a segment begins
//	piece    bytes                                    its next ones
//	end      segments u64 | bytes u64                 that was all of it
//	failed   text                                     it cannot be sent to its end
//
// # What is sent
//
// Whole batches up to where the sender's journal ends when the sender gets there. A node that
// leads may have written batches that no other node has yet, and that may never be committed: for
// a node that goes on in the same cluster they are what it would have been sent anyway. A backup
// must not hold them; see SendOptions.Confirm.
//
// The package knows nothing of raft, sockets and the cluster's members.
package snapshot
