// Package watch looks at a server as time goes by, for all who want to know how it goes on:
// it keeps the history, and tells subscribers that there is something new.
//
//	admin.Operator ◄── Watch.Run, each second; tubes each 2 s for subscribers, or each 5 s
//	                       ├──► trend.History: what was
//	                       └──► Snapshot ──► Subscription ──► View: what is another than it was
//
// There is one looker, however many subscribers, and none while there is neither a subscriber
// nor a history. Nothing is queued: a subscriber takes the newest snapshot when he comes to it,
// so who is slow misses some and keeps nobody waiting. What he has seen is a name and a
// number a tube of his view, not the tubes.
//
// The moments at which tubes are read for the history lie in the middle of its slots, so that a
// look that is somewhat late does not leave a slot empty.
package watch
