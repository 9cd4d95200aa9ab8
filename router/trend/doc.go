// Package trend samples a server once a second, keeps the history of its figures in memory,
// and notifies subscribers of changes.
//
//	admin.Operator ◄── Watch.Run: the server each second, tubes each 2 s for subscribers or 5 s for history
//	                      ├──► History: an hour in slots of 5 s, a day in slots of 60 s
//	                      └──► Snapshot ──► Subscription ──► Look: changes in a list of tubes
//
// One goroutine samples for all subscribers; without subscribers and history it sleeps. Nothing
// is queued: a subscriber takes the newest snapshot, so a slow subscriber skips snapshots and
// delays no other.
//
// A slot holds the maximum of a gauge, the mean rate of a counter, and quantiles of a histogram.
// A slot without a reading is shown as a gap: the machine slept, the server was busy, or the
// clock was set forward. When the clock is set back, slots that are now in the future are
// dropped. A rate uses the monotonic time between two readings.
//
// A value takes four bytes and a quantile one, so each tube with a history takes 105 kB.
package trend
