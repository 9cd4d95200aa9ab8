package workload

import (
	"slices"
	"testing"
)

func TestParseCPUs(t *testing.T) {
	for in, want := range map[string][]int{"0": {0}, "0,1": {0, 1}, "2-4,0,3": {0, 2, 3, 4}, "all": {}} {
		if got, err := parseCPUs(in); err != nil || got == nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v", in, got, err)
		}
	}
	for _, bad := range []string{"", "a", "1-", "-1", "3-2", "1,,2", "0-99999"} {
		if _, err := parseCPUs(bad); err == nil {
			t.Errorf("%q passed", bad)
		}
	}
}

func TestSharesOfProcessesAddUp(t *testing.T) {
	for _, n := range []int{1, 7, 50} {
		for processes := 1; processes <= n && processes < 9; processes++ {
			sum := 0
			for i := range processes {
				s := Plan{Load: Load{Processes: processes}, Process: i}.Share(n)
				if s < n/processes || s > n/processes+1 {
					t.Errorf("process %d of %d has %d of %d", i, processes, s, n)
				}
				sum += s
			}
			if sum != n {
				t.Errorf("%d processes share %d as %d", processes, n, sum)
			}
		}
	}
}
