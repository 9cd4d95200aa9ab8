package keep

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/conversation"
	"polystalk/shard/record"
)

// startSlowly starts a server that may take long, and returns how long that
// was until it answered.
func startSlowly(t *testing.T, args ...string) (*conversation.Server, time.Duration) {
	t.Helper()
	port, err := conversation.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	cmd := exec.Command(args[0], append(args[1:], "-l", "127.0.0.1", "-p", fmt.Sprint(port))...)
	s := conversation.NewServer(cmd, address)
	begin := time.Now()
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	for time.Since(begin) < 10*time.Minute {
		select {
		case <-s.Exited():
			t.Fatalf("it ended: %v", s.Err())
		default:
		}
		c, err := conversation.Dial("tcp", address)
		if err != nil {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		err = c.Say([]byte("list-tube-used\r\n"))
		if err == nil {
			_, err = c.Reply(10 * time.Minute)
		}
		took := time.Since(begin)
		c.Close()
		if err == nil {
			return s, took
		}
	}
	t.Fatal("it does not start")
	return nil, 0
}

// TestRecoveryTime puts jobs of 100 bytes into both servers, as many as
// POLYSTALKD_RECOVERY says (for a measurement: 5000000), and has both start
// again. The times are for who reads the log of the test.
func TestRecoveryTime(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	n := daemon.Amount(t, "POLYSTALKD_RECOVERY", 40_000)
	program, _ := daemon.Reference(t)
	put := "put 100 0 60 100\r\n" + strings.Repeat("j", 100) + "\r\n"
	var took [2]time.Duration
	for i, args := range [][]string{{daemon.Program(t), "--log-level", "error"}, {program}} {
		args = append(args, "-b", t.TempDir(), "-F")
		s, _ := startSlowly(t, args...)
		begin := time.Now()
		var wg sync.WaitGroup
		for k := range 4 {
			c := daemon.Client(t, s)
			daemon.MustAsk(t, c, "use tube-%d\r\n", k)
			wg.Go(func() {
				for left := n / 4; left > 0; left -= 1000 {
					putN(t, c, min(left, 1000), put)
				}
			})
		}
		wg.Wait()
		t.Logf("%s: %d jobs put in %v", filepath.Base(args[0]), n, time.Since(begin))
		daemon.Kill(s)
		s, took[i] = startSlowly(t, args...)
		t.Logf("%s: started with them in %v, has %d MB resident", filepath.Base(args[0]), took[i], daemon.Memory(s)>>20)
		daemon.AwaitStat(t, s, "current-jobs-ready", uint64(n/4*4))
		daemon.Kill(s)
	}
	t.Logf("%.2f of beanstalkd's time", took[0].Seconds()/took[1].Seconds())
}

// TestDirectoryStaysBounded: 20,000 live jobs, and beside them releases with
// a delay and jobs that come and go, 15 and 50 for each. The directory keeps to
// twice the live jobs and three segments all the time. Of beanstalkd's faults
// this is "10,000 live jobs, 300,000 delayed releases". POLYSTALKD_CHURN=100
// is the whole of it, by default a few percent are done.
func TestDirectoryStaysBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	percent := daemon.Amount(t, "POLYSTALKD_CHURN", 4)
	releases, puts := 3000*percent, 10_000*percent
	live := 200 * percent
	for _, policy := range []string{"-f0", "-F"} {
		t.Run("policy="+policy, func(t *testing.T) {
			const segment = 256 << 10
			dir := t.TempDir()
			s := startKept(t, dir, policy, "-s", fmt.Sprint(segment))
			c := daemon.Client(t, s)
			daemon.MustAsk(t, c, "use live\r\n")
			putN(t, c, live, "put 100 0 600 100\r\n"+strings.Repeat("l", 100)+"\r\n")
			bound := 2*int64(live)*record.JobSize(len("live"), 100) + 3*segment

			stop, stopped := make(chan struct{}), make(chan struct{})
			var most int64
			samples := 0
			go func() {
				defer close(stopped)
				for {
					var size int64
					names, _ := filepath.Glob(filepath.Join(dir, "journal.*"))
					for _, name := range names {
						// One that is renamed meanwhile is counted at most once.
						if st, err := os.Stat(name); err == nil {
							size += st.Size()
						}
					}
					most = max(most, size)
					samples++
					select {
					case <-stop:
						return
					case <-time.After(2 * time.Millisecond):
					}
				}
			}()
			var wg sync.WaitGroup
			for k := range 2 {
				c := daemon.Client(t, s)
				wg.Go(func() { // releases
					for n := range releases / 2 {
						id := 2*(n%(live/2)) + 1 + k
						var ask bytes.Buffer
						fmt.Fprintf(&ask, "reserve-job %d\r\nrelease %d %d 5000\r\n", id, id, n)
						fed := daemon.Feed(c, ask.Bytes())
						for _, w := range []string{"RESERVED ", "RELEASED"} {
							if reply, err := c.Reply(conversation.Patience); err != nil || !strings.HasPrefix(string(reply), w) {
								t.Errorf("got %.60q, %v; want %s", reply, err, w)
								return
							}
						}
						<-fed
					}
				})
			}
			for range 4 {
				c := daemon.Client(t, s)
				wg.Go(func() { // jobs that come and go
					put := []byte("put 100 0 600 100\r\n" + strings.Repeat("c", 100) + "\r\n")
					for left := puts / 4; left > 0; left -= 25 {
						fed := daemon.Feed(c, bytes.Repeat(put, 25))
						var ask bytes.Buffer
						for range 25 {
							reply, err := c.Reply(conversation.Patience)
							if err != nil || !strings.HasPrefix(string(reply), "INSERTED ") {
								t.Errorf("put: %.60q, %v", reply, err)
								return
							}
							fmt.Fprintf(&ask, "delete %s", reply[len("INSERTED "):])
						}
						<-fed
						fed = daemon.Feed(c, ask.Bytes())
						for range 25 {
							if reply, err := c.Reply(conversation.Patience); err != nil || string(reply) != "DELETED\r\n" {
								t.Errorf("delete: %.60q, %v", reply, err)
								return
							}
						}
						<-fed
					}
				})
			}
			wg.Wait()
			close(stop)
			<-stopped
			st := fields(daemon.MustAsk(t, c, "stats\r\n"))
			t.Logf("at most %d kB of %d in %d samples: %.2f of the bound; %s records written, %s moved, segments %s to %s", most>>10, bound>>10, samples,
				float64(most)/float64(bound), st["binlog-records-written"], st["binlog-records-migrated"], st["binlog-oldest-index"], st["binlog-current-index"])
			// What comes and goes lives too: 25 jobs of each at once.
			if most > bound+2*100*record.JobSize(len("default"), 100) {
				t.Errorf("the directory grew to %d bytes, %d are the bound", most, bound)
			}
			daemon.Kill(s)
			s = startKept(t, dir)
			daemon.AwaitStat(t, s, "current-jobs-delayed", uint64(min(live, releases)))
		})
	}
}
