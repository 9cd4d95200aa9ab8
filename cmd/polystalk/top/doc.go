// Package top shows tubes or connections again and again, as top shows processes: on a
// terminal as a screen that takes keys, elsewhere as text.
//
//	Source.Look (server, rows) → Sample → lay (columns for a width) → Model.View, or Plain
//
// Model is bubbletea's: a value that Update makes a new one of, so tests give it messages and
// look at what it would show. Times come with messages; the model has no clock.
//
// Who watches is no burden: there is one look at a time, lists are sorted and cut by the
// server where it can do that, connections are asked for only while they are on the screen,
// and by beanstalkd's protocol, where each tube is a command, a look is waited for nine
// times as long as it took.
package top
