// Package exchange replaces the journal of a directory by a new one, for example from another
// server. The process may end at any moment, by kill -9 or a power cut: the next start finds
// either the whole old journal or the whole new one.
//
// The new journal's files are written next to the old one's, under other names:
//
//	journal.0000000007     the old journal
//	incoming.0000000031    the new one, so far
//
// They are not in a separate directory: so they are certainly on the same file system, whichever
// user owns the parent directory, and one sync makes all names durable. Other files in the
// directory, such as its lock, are never changed.
//
// The marker is an empty file; its name says how far the exchange is.
//
//	files                                  what a start does with them
//	incoming.*                             nothing was exchanged: it removes them
//	exchange.begun, incoming.*, journal.*  it removes the rest of the old journal
//	exchange.cleared, incoming.*           it renames the remaining files of the new journal
//	journal.*                              nothing
//
// Each line is durable before the next one begins. The marker distinguishes the second line from
// the third, since the files of both journals may have the same names, and even the same identity:
// a copy of a journal has the identity of the original.
//
// A note may come with the new journal. It is staged as incoming.note, and becomes exchange.note
// when the files are renamed. The note of the old journal is removed with it.
//
// Resume continues from any line. Every start calls it, with the directory's lock held, before
// it reads the journal.
package exchange
