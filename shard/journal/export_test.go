package journal

// What tests see besides; they are in a package of their own because package
// shard imports this one.

// Begun is the number of the last commit begun.
func (j *Journal) Begun() uint64 { return j.begun.Load() }

// DurableCommit is the last commit known to be durable, whatever the policy.
func (j *Journal) DurableCommit() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.durable
}

// Idle reports whether no log waits to be written.
func (j *Journal) Idle() bool { return j.queue.Load() == nil }

// Pending is the bytes in Logs, about.
func (j *Journal) Pending() int64 { return j.pending.Load() }

// SegmentName is the name of a segment's file.
func SegmentName(number uint64) string { return segmentName(number) }
