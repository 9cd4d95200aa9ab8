package workload

import (
	"errors"
	"time"

	"polystalk/loadtest/proc"
)

// A Memory is what the memory workload found, in bytes of the server's
// resident memory.
type Memory struct {
	Jobs       int64 `json:"jobs"`
	BodyBytes  int   `json:"body_bytes"`
	RSSEmpty   int64 `json:"rss_empty"`
	RSSFull    int64 `json:"rss_full"`
	RSSDrained int64 `json:"rss_drained"` // after the settling time
}

// BytesPerJob is resident memory per ready job, body included.
func (m *Memory) BytesPerJob() float64 {
	if m == nil {
		return 0
	}
	return float64(m.RSSFull-m.RSSEmpty) / float64(m.Jobs)
}

// Kept is the part of that memory still resident after the drain.
func (m *Memory) Kept() float64 {
	if m == nil || m.RSSFull <= m.RSSEmpty {
		return 0
	}
	return max(0, float64(m.RSSDrained-m.RSSEmpty)/float64(m.RSSFull-m.RSSEmpty))
}

// CanWeigh tells whether Weigh can do its work.
func (e *Env) CanWeigh() error {
	if e.Plan.ServerPID == 0 {
		return errors.New("workload memory needs the server's process id (-compare, or -pid)")
	}
	return nil
}

// Weigh reads the server's resident memory before fill, which returns how many
// jobs it left there, some time after it, and, when drain has taken them out
// again, after the settling time. full, if there is one, runs while the server is full.
func (ph *Phase) Weigh(fill func() (jobs int64, err error), full, drain func() error) error {
	e := ph.env
	m := &Memory{BodyBytes: e.Plan.Load.Body}
	var err error
	if m.RSSEmpty, err = proc.RSS(e.Plan.ServerPID); err != nil {
		return err
	}
	if m.Jobs, err = fill(); err != nil {
		return err
	}
	if err := ph.Rest(time.Second); err != nil {
		return err
	}
	if m.RSSFull, err = proc.RSS(e.Plan.ServerPID); err != nil {
		return err
	}
	if full != nil {
		if err := full(); err != nil {
			return err
		}
	}
	if err := drain(); err != nil {
		return err
	}
	if err := ph.Rest(e.Plan.Load.Settle); err != nil {
		return err
	}
	if m.RSSDrained, err = proc.RSS(e.Plan.ServerPID); err != nil {
		return err
	}
	e.Memory = m
	return nil
}
