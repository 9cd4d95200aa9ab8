// Package binlog reads and writes the directories that beanstalkd keeps with
// -b: files binlog.1, binlog.2, …, each a header word and records back to back.
//
//	binlog.1                 binlog.2
//	+---+------+------+--    +---+------+--------+------+-- … --+
//	| 7 | full | full | …    | 7 | full | short  | full | zeros |
//	+---+------+------+--    +---+------+--------+------+-- … --+
//	      put 1  put 2             put 3  delete 1 2 again, moved here
//
// A full record is a job with its body; a short one is the job's new state. The
// last record about a job counts. There is no checksum and no sequence number,
// and a record is several write calls: a killed server may leave half of one.
// Version 7 (beanstalkd 1.5 to 1.13) and 5 (1.4) are read, as 64-bit
// little-endian machines write them; version 7 is written.
//
// Reading is stricter than beanstalkd, which skips the rest of a damaged file
// and starts: here damage is an error that names file and offset, unless it is
// to be salvaged. Files are never altered. Jobs come out as they were when the
// log ended, which says nothing about reservations: a reserved job is ready.
//
// Unlike the other codecs this one does I/O, for a log may be larger than
// memory. It decides nothing about the jobs: whether an overdue job is ready, or
// whether a body is too large, is for the importer.
//
// Memory: some 300 bytes for each of the most jobs alive at once, and the
// bodies only as they are asked for.
//
// Source of the format and of the rules: beanstalkd 1.12, file.c, walg.c, job.c
// and dat.h; binlog.c of 1.4.6 for version 5.
package binlog
