package gearman

// A Priority is one of the three queues of a function.
type Priority uint8

// The priorities, most urgent first.
const (
	High Priority = iota
	Normal
	Low
	NumPriorities // how many there are, for arrays indexed by Priority
)

// What the three queues are among the priorities of a tube, where smaller is
// more urgent: a submission takes the value of its queue, and a job that came
// from elsewhere belongs to the queue in whose range it lies.
const (
	PriHigh   = 0
	PriNormal = 1024 // what beanstalkd clients use unless told otherwise
	PriLow    = 1<<32 - 1

	normalFrom = PriNormal
	lowFrom    = 1 << 31
)

// Pri is the priority in a tube of a job that was submitted with p.
func (p Priority) Pri() uint32 {
	return [NumPriorities]uint32{PriHigh, PriNormal, PriLow}[p]
}

// PriorityOf is the queue to which a job with a tube's priority pri belongs.
func PriorityOf(pri uint32) Priority {
	switch {
	case pri < normalFrom:
		return High
	case pri < lowFrom:
		return Normal
	}
	return Low
}
