package router

import "polystalk/codec/beanstalk"

// A Counter is one figure about the server's inside, for whoever measures it.
// All but those named "most" only grow.
type Counter struct {
	Name  string
	Value uint64
}

// What a loop counts for itself, without atomics, by index into loop.tally.
// Show publishes it once per callback of the event loop.
const (
	tallyInputs = iota
	tallyWrites
	tallyDeferred
	tallyBehind
	tallyPauses
	tallyHelps
	tallyVisits
	tallyBusy
	tallySent
	tallyHelped
	tallyIDAdds
	tallyEndAdds
	numTallies
)

// tallyNames are the names of the loops' counters, summed over all loops.
var tallyNames = [numTallies]string{
	tallyInputs:   "inputs",         // times that a connection brought bytes
	tallyWrites:   "writes",         // system calls that wrote replies
	tallyDeferred: "turns-deferred", // turns put off, so that other connections had theirs
	tallyBehind:   "behind",         // times that a socket did not take all, and the rest began to wait
	tallyPauses:   "pauses",         // times that a connection was no longer read because it got ahead
	tallyHelps:    "helps",          // times that others did an idle loop's turn
	tallyVisits:   "shard-visits",   // times that a shard was taken
	tallyBusy:     "shard-busy",     // times that a shard was found owned by another
	tallySent:     "inbox-sent",     // operations left in the inbox of a busy shard
	tallyHelped:   "inbox-helped",   // operations of others that a loop ran from an inbox
	tallyIDAdds:   "id-adds",        // times that a put wrote the counter of ids, which all loops share
	tallyEndAdds:  "end-adds",       // times that a loop wrote how many ids of a page have ended
}

// show publishes what has changed. Only the loop calls it, so the load and the
// store need not be one step.
func (l *loop) show() {
	b := &l.batch
	l.tally[tallyVisits], l.tally[tallyBusy] = b.Visits, b.Busy
	l.tally[tallySent], l.tally[tallyHelped] = b.Sent, b.Helped
	l.tally[tallyEndAdds] = l.ended.Adds()
	for i, n := range l.tally {
		if l.shown[i].Load() != n {
			l.shown[i].Store(n)
		}
	}
}

// Counters returns the server's counters, always in the same order: "loops"
// and "shards"; those of tallyNames; of the shards'
// goroutines "shard-rounds" (times that one took its shard) and
// "inbox-left" (operations that one ran because no loop did); "inbox-most",
// the most operations found waiting in any one inbox; "commands" of both protocols;
// and each kind of command, every one received and well formed: of beanstalkd's
// protocol as "cmd-" and its word, of Gearman's packets and lines as "gearman-" and
// their name in lower case, as in "gearman-submit-job-bg" and "gearman-show-jobs".
// It may be called at any time and disturbs no loop; figures lag by one turn
// of a loop at most, and are not all of one moment.
func (s *Server) Counters() []Counter {
	var (
		sums     [numTallies]uint64
		cmds     [beanstalk.NumKinds]uint64
		commands uint64
		most     uint64
		rounds   uint64
		left     uint64
	)
	loops := *s.told.Load()
	for _, l := range loops {
		for i := range sums {
			sums[i] += l.shown[i].Load()
		}
		for k := range cmds {
			cmds[k] += l.cmds[k].Load()
		}
	}
	for _, sh := range s.places.Shards() {
		c := sh.Counters()
		most = max(most, c.Deepest)
		rounds += c.Rounds
		left += c.Helped
	}
	for _, n := range cmds {
		commands += n
	}
	gear, n := gearCounters(nil, loops)
	commands += n

	list := []Counter{{"loops", uint64(len(loops))}, {"shards", uint64(len(s.places.Shards()))}}
	for i, name := range tallyNames {
		list = append(list, Counter{name, sums[i]})
	}
	list = append(list, Counter{"shard-rounds", rounds}, Counter{"inbox-left", left},
		Counter{"inbox-most", most}, Counter{"commands", commands})
	for k := beanstalk.Unknown + 1; k < beanstalk.NumKinds; k++ {
		list = append(list, Counter{"cmd-" + k.String(), cmds[k]})
	}
	return append(list, gear...)
}
