package beanstalkd

import (
	"strings"

	"polystalk/codec/beanstalk"
)

// A failure is a reply that says that a command was not done. NOT_FOUND is one of them: it
// is what a worker hears that was too late. TIMED_OUT, DEADLINE_SOON and NOT_IGNORED are
// none: all went as it was asked for.
type failure uint8

const (
	badFormat failure = iota
	unknownCommand
	expectedCRLF
	jobTooBig
	draining
	outOfMemory
	internalError
	notFound
	failures
)

var failureReplies = [failures]string{
	badFormat: beanstalk.MsgBadFormat, unknownCommand: beanstalk.MsgUnknownCommand, expectedCRLF: beanstalk.MsgExpectedCRLF,
	jobTooBig: beanstalk.MsgJobTooBig, draining: beanstalk.MsgDraining, outOfMemory: beanstalk.MsgOutOfMemory,
	internalError: beanstalk.MsgInternalError, notFound: beanstalk.MsgNotFound,
}

// Errors implements session.Front: the replies in lower case, as in "bad_format".
func (f *Front) Errors() []string {
	names := make([]string, failures)
	for i, reply := range failureReplies {
		names[i] = strings.ToLower(strings.TrimSuffix(reply, crlf))
	}
	return names
}

// fail answers with a failure, and counts it.
func (c *conn) fail(why failure) {
	c.Loop().CountError(c.front.errorBase + int(why))
	c.Say(failureReplies[why])
}
