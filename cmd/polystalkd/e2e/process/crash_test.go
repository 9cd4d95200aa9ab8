package process

import (
	"fmt"
	"strings"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

// TestKillKeepsWhatWasAcknowledged, with each sync policy: jobs in each state, bodies up to the limit
// and the pause of a tube survive kill -9. After a restart beanstalkd refuses its own jobs of 65534
// and 65535 bytes, and all jobs that follow them. A smaller limit for new jobs makes no difference.
// The fault harness (make faults) has kill rounds that judge whole histories.
func TestKillKeepsWhatWasAcknowledged(t *testing.T) {
	for _, policy := range [][]string{nil, {"-f", "5"}, {"-F"}} {
		t.Run("policy="+strings.Join(policy, ""), func(t *testing.T) {
			dir := t.TempDir()
			s := startLogged(t, dir, policy...)
			c := s.Client()
			for i, size := range []int{4, 4, 4, 4, 4, 0, 1, 65533, 65534, 65535, 1} {
				daemon.Expect(t, c, fmt.Sprintf("put 9 0 1000 %d\r\n%s\r\n", size, strings.Repeat("b", size)), fmt.Sprintf("INSERTED %d\r\n", i+1))
			}
			for id, end := range map[int]string{1: "bury 1 5\r\n", 2: "release 2 4 3000\r\n", 3: "release 3 3 0\r\n", 4: "bury 4 1\r\n"} {
				daemon.MustAsk(t, c, "reserve-job %d\r\n", id)
				daemon.MustAsk(t, c, "%s", end)
			}
			daemon.Expect(t, c, "kick-job 4\r\n", "KICKED\r\n")
			daemon.Expect(t, c, "pause-tube default 4000\r\n", "PAUSED\r\n")
			states := see(t, c, upTo(11))
			daemon.MustAsk(t, c, "reserve-job 5\r\n") // the reservation ends with the process
			for _, more := range []string{"--shards=16", "-z=100"} {
				s.Crash()
				s = startLogged(t, dir, append(policy, more)...)
				if line := s.WaitLog("journal read"); line == nil || line["jobs"] != 11.0 || line["dir"] != dir || line["level"] != "INFO" {
					t.Errorf("%v, want 11 jobs in %s", line, dir)
				}
				c = s.Client()
				sameJobs(t, see(t, c, upTo(20)), states)
				if left := fields(daemon.MustAsk(t, c, "stats-tube default\r\n"))["pause-time-left"]; left < "3" || len(left) != 4 {
					t.Errorf("the pause has %s s left", left)
				}
			}
		})
	}
}
