// Package workloadtest runs workloads in tests, without load processes.
package workloadtest

import (
	"testing"

	"polystalk/loadtest/workload"
)

// Run runs a plan in this process and returns the report of its measured phase.
func Run(t *testing.T, proto *workload.Protocol, p workload.Plan) (*workload.Report, error) {
	t.Helper()
	var rep *workload.Report
	err := workload.Run(t.Context(), proto, p, func(m workload.Message) error {
		if m.Stage == workload.Measured {
			rep = m.Report
		}
		return nil
	})
	return rep, err
}
