// Package trend keeps the history of a server's figures in memory, and finds changes for event
// streams.
//
//	admin.Operator ◄── Watch.Run: the server each second, tubes each 5 s
//	      ▲               └──► History: an hour in slots of 5 s, a day in slots of 60 s
//	      └── streams: the same samples ──► Look: changes in a list of tubes
//
// The operator caches samples, so callers that sample at the same times share them: see UntilNext.
// Nothing is queued: a stream takes the newest sample, so a slow client skips samples and delays no
// other.
//
// A slot holds the maximum of a gauge, the mean rate of a counter, and quantiles of a histogram.
// A slot without a reading is shown as a gap: the machine slept, the server was busy, or the
// clock was set forward. When the clock is set back, slots that are now in the future are
// dropped. A rate uses the monotonic time between two readings.
//
// A value takes four bytes and a quantile one, so each tube with a history takes 105 kB.
package trend
