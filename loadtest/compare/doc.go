// Package compare runs loads on servers in turn and says what their figures are
// to each other.
//
//	Target      a server by its command line, and how it is started and stopped
//	Comparison  every load against every target, in interleaved rounds: the Runs
//	Metric      one figure of a run
//	Summary     medians over the rounds, and of the ratios to the first server
//	Assertion   a bound on a figure, and the Verdict on it
//
// On a shared machine a figure by itself means little. What counts is the ratio
// of two servers in one round, which they have spent under the same
// circumstances; so all is paired by round before a median is taken.
//
// It imports measure, workload and proc, and is imported by report.
package compare
