// Package command is the tree of polystalk's commands, one file a group of them.
//
//	Run → cobra finds the command → App.queue or App.polystalk (a server) → output.Printer
//
// A command that beanstalkd's protocol can do as well asks a queue.Queue, any other an
// api.Client. Flags are fields of the App: it is of one run.
package command
