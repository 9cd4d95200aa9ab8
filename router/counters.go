package router

import "polystalk/router/session"

// A new figure is added where it arises, and Counters below gathers them under their names:
//
//   - What a loop counts as it goes takes a constant among the tallies and its name in
//     tallyNames (router/session/tally.go), and a call of Loop.Tally where it happens.
//     Counters shows it then without a change.
//   - A kind of command is named by its protocol's Front, in Kinds, and counted by Session.Count.
//   - An error is named by Front.Errors and counted by Loop.CountError; operators alone see it.
//   - What a shard counts is a field of shard.Counters, and a line in Counters below.
//
// Each takes a line in the table of cmd/polystalkd/README.md, "Watching it". What operators
// are to see as well is a metric besides: package router/exposition, where a tally takes a
// row in tallies, and a line in the table of router/api/README.md.

// A Counter is one figure about the server's inside, for whoever measures it. All but
// those named "most" only grow.
type Counter struct {
	Name  string
	Value uint64
}

// Counters returns the server's counters, always in the same order: "loops" and "shards";
// the tallies of the loops (session.Tally); of the shards' goroutines "shard-rounds" (times
// that one took its shard) and "inbox-left" (operations that one ran because no loop did);
// "inbox-most", the most operations found waiting in any one inbox; "commands" of all
// protocols; and each kind of command, every one received and well formed: of beanstalkd's
// protocol as "cmd-" and its word, of Gearman's packets and lines as "gearman-" and their
// name in lower case, as in "gearman-submit-job-bg" and "gearman-show-jobs". It may be
// called at any time and disturbs no loop; figures lag by one turn of a loop at most, and
// are not all of one moment.
func (s *Server) Counters() []Counter {
	var most, rounds, left, commands uint64
	shards := s.host.Map.Shards()
	for _, sh := range shards {
		c := sh.Counters()
		most = max(most, c.Deepest)
		rounds += c.Rounds
		left += c.Left
	}
	n := s.host.Sums()
	for _, k := range n.Commands {
		commands += k
	}
	list := []Counter{{"loops", uint64(len(s.host.Loops()))}, {"shards", uint64(len(shards))}}
	for t, v := range n.Tallies {
		list = append(list, Counter{session.Tally(t).String(), v})
	}
	list = append(list, Counter{"shard-rounds", rounds}, Counter{"inbox-left", left},
		Counter{"inbox-most", most}, Counter{"commands", commands})
	at := 0
	for _, f := range s.fronts {
		for _, name := range f.Kinds() {
			if name != "" {
				list = append(list, Counter{name, n.Commands[at]})
			}
			at++
		}
	}
	return list
}
