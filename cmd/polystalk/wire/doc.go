// Package wire asks any server by beanstalkd's protocol, with its client in Go. What the
// protocol cannot do is a fault that says so.
//
// Answers are documents as polystalkd's API has them, without the members of which the
// protocol does not tell.
package wire
