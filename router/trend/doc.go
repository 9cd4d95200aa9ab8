// Package trend samples a server once a second, keeps the history of its figures in memory,
// and tells subscribers what has changed.
//
//	admin.Operator ◄── Watch.Run: the server each second, tubes each 2 s for subscribers or 5 s for history
//	                      ├──► History: an hour in slots of 5 s, a day in slots of 60 s
//	                      └──► Snapshot ──► Subscription ──► Look: changes in a list of tubes
//
// One goroutine samples, however many subscribers there are; without subscribers and history
// it sleeps. Nothing is queued: a subscriber takes the newest snapshot, so a slow one skips
// some and delays nobody.
//
// A slot holds the largest gauge, the mean rate, and quantiles of what was counted in it. A
// slot without a reading is shown as a gap: a sleeping machine, a busy server, or a clock
// that was set forward. When the clock is set back, slots that are now in the future are
// dropped. A rate uses the monotonic time between two readings.
//
// A value takes four bytes and a quantile one, so a tube takes 105 kB from the start.
package trend
