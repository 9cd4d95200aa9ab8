// Package beanstalk is the beanstalkd wire protocol: command lines to Command
// values, replies to bytes.
//
//	put 5 0 60 3\r\n abc\r\n     ──Parse──►   Command{Put, Pri 5, TTR 60, Size 3}
//	                                          body: the caller's, Size+2 bytes
//	INSERTED 1\r\n               ◄─Append─    id 1
//
// A connection's input is a sequence of lines. Parse takes one line from its
// front; after a Put the caller takes the body itself, so a body is never
// copied here. A line that passes MaxLine bytes is given up: discard, SkipLine
// until its end, answer MsgBadFormat.
//
// Every command and every reply equals beanstalkd 1.13 byte for byte, also where
// its protocol.txt says otherwise: clients have met the implementation.
// Parsing hot commands and appending hot replies allocates nothing.
package beanstalk
