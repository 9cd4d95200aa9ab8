// Package gearman is the Gearman wire protocol: binary packets and the
// administrators' lines of text, which alternate freely on one connection, to
// Message values, and replies to bytes.
//
//	\0REQ type size │ f \0 u \0 │ data      ──Parse──►   Message{SubmitJob, f, u, Size 4}
//	└──────── Parse uses these ┘             data: the caller's, Size bytes
//	status\r\n                              ──Parse──►   Message{Text, Status}
//	\0RES type size │ H:host:1              ◄─Append─    Handle{"H:host", 1}
//
// The first byte of a message tells its kind: NUL begins a packet, anything
// else a line. Of a packet Parse takes the header and the arguments; the data
// behind them is the caller's to take, so a workload is never copied here and
// its arguments are known before it has arrived. A packet never reaches beyond
// the length its header declares, and what Parse has to see at once is bounded
// by MaxHead, whatever that length is.
//
// A message that makes no sense has a Fault, which knows its reply and whether
// the connection ends. Replies equal gearmand 1.1.20 and 2.0.0 byte for
// byte, except where gearmand loses work, hangs or dies. Parsing packets and appending
// replies allocates nothing.
//
// Sources, named in the comments: the gearmand project's PROTOCOL document;
// "observed": gearmand 1.1.20 and 2.0.0, asked over a socket.
package gearman
