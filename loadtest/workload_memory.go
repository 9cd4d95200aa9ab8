package main

// A memory is what the memory workload found, in bytes of the server's
// resident memory.
type memory struct {
	Jobs       int64 `json:"jobs"`
	BodyBytes  int   `json:"body_bytes"`
	RSSEmpty   int64 `json:"rss_empty"`
	RSSFull    int64 `json:"rss_full"`
	RSSDrained int64 `json:"rss_drained"` // after the settling time
}

// bytesPerJob is resident memory per ready job, body included.
func (m *memory) bytesPerJob() float64 {
	if m == nil {
		return 0
	}
	return float64(m.RSSFull-m.RSSEmpty) / float64(m.Jobs)
}

// kept is the part of that memory still resident after the drain.
func (m *memory) kept() float64 {
	if m == nil || m.RSSFull <= m.RSSEmpty {
		return 0
	}
	return max(0, float64(m.RSSDrained-m.RSSEmpty)/float64(m.RSSFull-m.RSSEmpty))
}
