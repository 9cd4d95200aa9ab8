// Package beanstalk is the beanstalkd wire protocol: command lines to Command
// values, replies to bytes.
//
//	put 5 0 60 3\r\n abc\r\n     ──Parse──►   Command{Put, Pri 5, TTR 60, Size 3}
//	                                          body: the caller's, Size+2 bytes
//	INSERTED 1\r\n               ◄─Append─    id 1
//
// A connection's input is a sequence of lines. Parse takes one line from its
// front; after a Put the caller takes the body itself, so this package never
// copies a body. The caller discards a line of more than MaxLine bytes: it calls
// SkipLine until the end of the line, and then replies MsgBadFormat.
//
// Every command and every reply equals beanstalkd 1.13 byte for byte, even where
// its protocol.txt differs: clients rely on the implementation.
// Parsing frequent commands and appending frequent replies allocates nothing.
package beanstalk
