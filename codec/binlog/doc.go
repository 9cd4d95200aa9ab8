// Package binlog reads and writes the directories that beanstalkd -b uses: files
// binlog.1, binlog.2, …, each with a header word and records without gaps.
//
//	binlog.1                 binlog.2
//	+---+------+------+--    +---+------+--------+------+-- … --+
//	| 7 | full | full | …    | 7 | full | short  | full | zeros |
//	+---+------+------+--    +---+------+--------+------+-- … --+
//	      put 1  put 2             put 3  delete 1 2 again, moved here
//
// A full record is a job with its body; a short one is the job's new state. The last record of a
// job counts. There is no checksum and no sequence number. beanstalkd writes a record with several
// write calls, so a killed server may leave a part of one. The package reads versions 7 (beanstalkd
// 1.5 to 1.13) and 5 (1.4) of 64-bit little-endian machines, and writes version 7.
//
// Reading is stricter than in beanstalkd, which skips the rest of a damaged file and starts. Here
// damage is an error with file and offset, unless the caller asks to salvage. Files are never
// changed. The result is the state at the end of the log. It contains no reservations: a reserved
// job is ready.
//
// Unlike the other codecs this one does I/O, since a log may be larger than memory. The importer
// decides about the jobs: whether an overdue job is ready, or whether a body is too large.
//
// Memory: about 300 bytes for each job at the largest number of live jobs. Bodies are read only
// when they are needed.
//
// Source of the format and of the rules: beanstalkd 1.12, file.c, walg.c, job.c
// and dat.h; binlog.c of 1.4.6 for version 5.
package binlog
