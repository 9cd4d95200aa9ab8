// Package exchange puts a journal that came from elsewhere into the place of the one that a
// directory holds, so that whenever the process ends, by kill -9 or a power cut, the next start
// finds either the whole old journal or the whole new one.
//
// The new journal's files are written beside the old one's, under names that no journal has:
//
//	journal.0000000007     the old journal
//	incoming.0000000031    the new one, so far
//
// They are not in a directory of their own: here they are certain to be on the same file
// system, whichever user owns the parent directory, and one sync makes all names durable. Other
// files in the directory, such as its lock, are never touched.
//
// The marker is an empty file; its name says how far the exchange is.
//
//	files                                  an end here means
//	incoming.*                             nothing was exchanged: they are removed
//	exchange.begun, incoming.*, journal.*  the old journal goes: what is left of it is removed
//	exchange.cleared, incoming.*           the new one comes: each file that still has its name of
//	                                       before gets its own
//	journal.*                              nothing is to be done
//
// Each line is durable before the next one begins. Nothing of the second line can be mistaken
// for the third, although the files of both journals may have the same names, and even the same
// identity: a copy of a journal has the identity of the original.
//
// With the new journal a note may come. It is staged as incoming.note, and becomes exchange.note
// as the files get their names; one that is there from before goes with the old journal.
//
// Resume goes on from any of them. Every start calls it, with the directory's lock held, before
// it reads the journal.
package exchange
