package conversation

import "slices"

// Shrink looks for a smaller session for which fails still holds, by leaving
// out ever smaller runs of events and then single commands. It calls fails at
// most budget times; each call must start from servers of the same state.
func Shrink(s Session, budget int, fails func(Session) bool) Session {
	try := func(events []Event) bool {
		if budget == 0 {
			return false
		}
		budget--
		smaller := s
		smaller.Events = events
		if !fails(smaller) {
			return false
		}
		s = smaller
		return true
	}
	for run := max(1, len(s.Events)/2); ; run /= 2 {
		for i := 0; i < len(s.Events); {
			if !try(slices.Delete(slices.Clone(s.Events), i, min(i+run, len(s.Events)))) {
				i += run
			}
		}
		if run == 1 {
			break
		}
	}
	for i := 0; i < len(s.Events); i++ {
		for j := 0; j < len(s.Events[i].Actions) && len(s.Events[i].Actions) > 1; {
			events := slices.Clone(s.Events)
			events[i].Actions = slices.Delete(slices.Clone(events[i].Actions), j, j+1)
			if !try(events) {
				j++
			}
		}
	}
	return s
}
