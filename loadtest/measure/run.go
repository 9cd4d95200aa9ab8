package measure

import (
	"fmt"
	"time"

	"polystalk/loadtest/latency"
	"polystalk/loadtest/proc"
	"polystalk/loadtest/workload"
)

// A Run is the outcome of one load against one server, once. Times are those
// of the measured phase; the unit stands in each field's JSON name.
type Run struct {
	Load     string  `json:"load"`
	Server   string  `json:"server"`
	Round    int     `json:"round"` // from 1
	Ops      int64   `json:"ops"`
	Seconds  float64 `json:"seconds"`
	OpsRate  float64 `json:"ops_per_second"`
	Unsent   int64   `json:"unsent"`               // arrivals due and never sent: the rate was too high for the server
	CPU      float64 `json:"server_cpu_us_per_op"` // user and system; 0: not known
	CPUUser  float64 `json:"server_user_us_per_op"`
	CPUSys   float64 `json:"server_system_us_per_op"`
	Busy     float64 `json:"server_cores_busy"` // server CPU over wall time
	LoadCPU  float64 `json:"load_cpu_us_per_op"`
	LoadBusy float64 `json:"load_cores_busy"`
	// Latency is of commands, or from put to reservation where the workload is about that.
	Latency   latency.Summary  `json:"latency"`
	Commands  latency.Summary  `json:"command_latency"`
	RSSBefore int64            `json:"rss_before_bytes"` // before the load connected
	RSSAfter  int64            `json:"rss_after_bytes"`  // at the end of the measured phase
	Memory    *workload.Memory `json:"memory,omitempty"`
	Growth    *workload.Growth `json:"growth,omitempty"`
}

// add puts the processes' reports together.
func (r *Run) add(reports []*workload.Report, cpu proc.CPUTime) error {
	var commands, delivery *latency.Histogram
	var wall, load time.Duration
	var err error
	for _, rep := range reports {
		r.Ops += rep.Ops
		r.Unsent += rep.Unsent
		wall = max(wall, rep.Wall)
		load += rep.LoadCPU
		cpu.Total -= rep.ExcludedCPU
		if rep.ExcludedCPU > 0 { // the split is too coarse to be corrected
			cpu.User, cpu.System = 0, 0
		}
		if rep.Memory != nil {
			r.Memory = rep.Memory
		}
		r.Growth = r.Growth.Plus(rep.Growth)
		if commands, err = latency.Merge(commands, rep.Commands); err != nil {
			return err
		}
		if delivery, err = latency.Merge(delivery, rep.Delivery); err != nil {
			return err
		}
	}
	if r.Ops == 0 || wall <= 0 {
		return fmt.Errorf("load %q: no operation was answered in %v", r.Load, wall)
	}
	ops := float64(r.Ops)
	us := func(d time.Duration) float64 { return float64(d) / 1e3 / ops }
	r.Seconds = wall.Seconds()
	r.OpsRate = ops / r.Seconds
	r.CPU, r.CPUUser, r.CPUSys = us(cpu.Total), us(cpu.User), us(cpu.System)
	r.LoadCPU = us(load)
	r.Busy, r.LoadBusy = cpu.Total.Seconds()/r.Seconds, load.Seconds()/r.Seconds
	r.Commands = latency.Summarize(commands)
	r.Latency = r.Commands
	if delivery != nil {
		r.Latency = latency.Summarize(delivery)
	}
	return nil
}
