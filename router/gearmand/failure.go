package gearmand

import (
	"slices"

	"polystalk/codec/gearman"
)

// failures are what is counted of answers that say that a message was not understood or
// not done: ERROR packets and lines that begin with ERR, by their codes, and what makes the
// server close a connection without a word.
var failures = []string{
	"argument_too_large", "data_too_large", "invalid_argument", "invalid_command", "invalid_magic", "invalid_packet",
	"job_not_found", "queue_error", "unknown_option",
	functionBusy, functionNotFound, "invalid_arguments", "unknown_command", "unknown_error", unknownJob, "unknown_show_arguments",
	"bad_magic", "line_too_long", "no_such_packet_type", "too_many_words",
}

// The codes of lines that have none.
const (
	unknownJob       = "unknown_job"
	functionNotFound = "function_not_found"
	functionBusy     = "function_busy"
)

// Errors implements session.Front.
func (f *Front) Errors() []string { return failures }

// failed counts an answer. The list is short, and to be answered so is rare.
func (c *conn) failed(code string) {
	c.Loop().CountError(c.front.errorBase + slices.Index(failures, code))
}

// fail answers with an ERROR, one of package gearman's.
func (c *conn) fail(body string) {
	c.failed(gearman.ErrorCode(body))
	out := c.Out()
	*out = gearman.AppendError(*out, body)
}

// refuseLine answers a line that cannot be done.
func (c *conn) refuseLine(msg, code string) {
	c.failed(code)
	c.Say(msg)
}

// sayFault answers a message in which something is wrong.
func (c *conn) sayFault(fault *gearman.Fault) {
	c.failed(fault.Code())
	out := c.Out()
	*out = fault.AppendReply(*out, &c.m)
}
