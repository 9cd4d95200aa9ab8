// Package gearman is the Gearman wire protocol. It decodes binary packets and the administrators'
// lines of text, which may alternate on one connection, to Message values, and encodes replies.
//
//	\0REQ type size │ f \0 u \0 │ data      ──Parse──►   Message{SubmitJob, f, u, Size 4}
//	└──────── Parse uses these ┘             data: the caller's, Size bytes
//	status\r\n                              ──Parse──►   Message{Text, Status}
//	\0RES type size │ H:host:1              ◄─Append─    Handle{"H:host", 1}
//
// The first byte of a message determines its kind: NUL begins a packet, any other byte
// a line. Parse takes the header and the arguments of a packet. The caller must take the
// data after them, so this package never copies a workload, and the arguments are known
// before the workload has arrived. A packet never exceeds the length in its header. Parse
// needs at most MaxHead bytes at once, for any length.
//
// An invalid message has a Fault, which knows its reply and whether the connection ends.
// Replies equal gearmand 1.1.20 and 2.0.0 byte for byte, except where gearmand loses
// work, hangs or crashes. Parsing packets and appending replies allocates nothing.
//
// Sources, named in the comments: the gearmand project's PROTOCOL document;
// "observed": gearmand 1.1.20 and 2.0.0, asked over a socket.
package gearman
