// Package store is what jobs are kept in: their records, without pointers, and the
// containers that link records to each other. It knows no rule of what a job may do; that
// is package core's, whose state it is.
//
//	Job, Submission   the records, in slabs: 96 bytes, and 28 more for a submitted job
//	List              in the order in which jobs came
//	Heap              by a key of two numbers, then by id; any job leaves in O(log n)
//	IDTable           by id
//	UniqueTable       by the hash of a unique id
//	LargeBodies       the bodies that are too large for slabs
//
// A record has its links and its places in itself, so a container takes nothing for a job
// but what a Heap and a UniqueTable have beside it to spare a look at the record. A
// container that shows that a record is not where it says panics: no answer would be right
// any more. Check walks one, for tests and for who asks.
//
// One goroutine at a time may use a container. Its fields are for others to read, and for
// tests to break.
package store
