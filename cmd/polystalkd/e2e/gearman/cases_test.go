package gearman

import (
	"os"
	"os/exec"
	"strconv"
	"testing"

	"polystalk/cmd/internal/release"
	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/conversation"
	"polystalk/codec/gearmantest"
)

// gearmanStart starts the daemon for a case; the cases' flags are gearmand's.
func gearmanStart(program string, shards int) gearmantest.Start {
	ours := map[string]string{
		"--job-retries": "--gearman-retries", "--worker-wakeup": "--gearman-wakeup",
		"--job-handle-prefix": "--gearman-prefix", "--exceptions": "--gearman-exceptions",
	}
	return func(c *gearmantest.Case, dir string) (*gearmantest.Server, error) {
		var err error
		for range 5 {
			var gear int
			if gear, err = conversation.FreePort(); err != nil {
				return nil, err
			}
			address := "127.0.0.1:" + strconv.Itoa(gear)
			args := append(daemon.ShardArgs(shards), "-l", "127.0.0.1", "-p", "0",
				"--gearman-listen", address, "--gearman-prefix", "H:lap")
			if c.Store {
				args = append(args, "-b", dir)
			}
			for _, o := range c.Opts {
				if name, ok := ours[o]; ok {
					o = name
				}
				args = append(args, o)
			}
			var s *gearmantest.Server
			if s, err = gearmantest.StartProcess(exec.Command(program, args...), address); err == nil {
				return s, nil
			}
		}
		return nil, err
	}
}

// gearmandStart does the same in place of gearmand, where the flags need no translation.
func gearmandStart(program string, shards int) gearmantest.Start {
	return func(c *gearmantest.Case, dir string) (*gearmantest.Server, error) {
		var err error
		for range 5 {
			var port int
			if port, err = conversation.FreePort(); err != nil {
				return nil, err
			}
			args := []string{"gearmand", "--shards", strconv.Itoa(shards), "--verbose", "ERROR",
				"-L", "127.0.0.1", "-p", strconv.Itoa(port), "--job-handle-prefix", "H:lap"}
			if c.Store {
				args = append(args, "--journal", dir)
			}
			var s *gearmantest.Server
			if s, err = gearmantest.StartProcess(exec.Command(program, append(args, c.Opts...)...), "127.0.0.1:"+strconv.Itoa(port)); err == nil {
				return s, nil
			}
		}
		return nil, err
	}
}

// TestGearmanCases plays what is written down about Gearman, once with the command line
// of gearmand.
func TestGearmanCases(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for _, shards := range daemon.ShardCounts {
		t.Run(strconv.Itoa(shards), func(t *testing.T) {
			start := gearmanStart(daemon.Program(t), shards)
			if shards == 4 && os.Getenv("POLYSTALKD_BIN") == "" {
				start = gearmandStart(daemon.Binary, shards)
			}
			gearmantest.Play(t, start, gearmantest.Options{
				Vars: map[string]string{"version": "2.0.0+polystalk." + release.Version},
			}, nil)
		})
	}
}
