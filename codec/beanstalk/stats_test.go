package beanstalk

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

// reply returns an OK reply with a YAML body. In body, a line break or a comma ends each key.
func reply(body string) string {
	body = "---" + strings.ReplaceAll(body, ", ", "\n") + "\n"
	return fmt.Sprintf("OK %d\r\n%s\r\n", len(body), body)
}

func TestJobStats(t *testing.T) {
	s := JobStats{ID: 1, Tube: "t", State: "reserved", Pri: 2, Age: 3, Delay: 4, TTR: 5, TimeLeft: 6, File: 7,
		Reserves: 8, Timeouts: 9, Releases: 10, Buries: 11, Kicks: 12}
	checkAppend(t, func(dst []byte) []byte { return AppendJobStats(dst, &s) }, reply(`
id: 1, tube: "t", state: reserved, pri: 2, age: 3, delay: 4, ttr: 5, time-left: 6, file: 7, reserves: 8, timeouts: 9, releases: 10
buries: 11, kicks: 12`))
	s = JobStats{ID: math.MaxUint64, Tube: name200, State: "ready", Pri: math.MaxUint32, TimeLeft: -1, Kicks: math.MaxUint32}
	checkAppend(t, func(dst []byte) []byte { return AppendJobStats(dst, &s) }, reply(`
id: 18446744073709551615, tube: "`+name200+`", state: ready, pri: 4294967295, age: 0, delay: 0, ttr: 0, time-left: -1, file: 0, reserves: 0
timeouts: 0, releases: 0, buries: 0, kicks: 4294967295`))
}

func TestTubeStats(t *testing.T) {
	s := TubeStats{Name: "t", Urgent: 1, Ready: 2, Reserved: 3, Delayed: 4, Buried: 5, TotalJobs: 6, Using: 7, Watching: 8, Waiting: 9,
		CmdDelete: 10, CmdPause: 11, Pause: 12, PauseTimeLeft: -13}
	checkAppend(t, func(dst []byte) []byte { return AppendTubeStats(dst, &s) }, reply(`
name: "t", current-jobs-urgent: 1, current-jobs-ready: 2, current-jobs-reserved: 3, current-jobs-delayed: 4
current-jobs-buried: 5, total-jobs: 6, current-using: 7, current-watching: 8, current-waiting: 9, cmd-delete: 10
cmd-pause-tube: 11, pause: 12, pause-time-left: -13`))
}

func TestServerStats(t *testing.T) {
	s := ServerStats{
		CurrentJobsUrgent: 1, CurrentJobsReady: 2, CurrentJobsReserved: 3, CurrentJobsDelayed: 4, CurrentJobsBuried: 5,
		Cmd: [NumKinds]uint64{
			Put: 6, Peek: 7, PeekReady: 8, PeekDelayed: 9, PeekBuried: 10, Reserve: 11, ReserveWithTimeout: 12, Delete: 13,
			Release: 14, Use: 15, Watch: 16, Ignore: 17, Bury: 18, Kick: 19, Touch: 20, Stats: 21, StatsJob: 22, StatsTube: 23,
			ListTubes: 24, ListTubeUsed: 25, ListTubesWatched: 26, PauseTube: 27,
			Unknown: 1000, Quit: 1001, KickJob: 1002, ReserveJob: 1003, // not shown
		},
		JobTimeouts: 28, TotalJobs: 29, MaxJobSize: 30, CurrentTubes: 31, CurrentConnections: 32, CurrentProducers: 33,
		CurrentWorkers: 34, CurrentWaiting: 35, TotalConnections: 36, PID: 37, Version: "1.13",
		RusageUtime: 38*time.Second + 1234*time.Microsecond + 999, RusageStime: 999_999 * time.Microsecond, Uptime: 40,
		BinlogOldestIndex: 41, BinlogCurrentIndex: 42, BinlogRecordsMigrated: 43, BinlogRecordsWritten: 44, BinlogMaxSize: 45,
		ID: "0123456789abcdef", Hostname: "host", OS: "#1 SMP", Platform: "x86_64",
	}
	want := `
current-jobs-urgent: 1, current-jobs-ready: 2, current-jobs-reserved: 3, current-jobs-delayed: 4, current-jobs-buried: 5
cmd-put: 6, cmd-peek: 7, cmd-peek-ready: 8, cmd-peek-delayed: 9, cmd-peek-buried: 10, cmd-reserve: 11
cmd-reserve-with-timeout: 12, cmd-delete: 13, cmd-release: 14, cmd-use: 15, cmd-watch: 16, cmd-ignore: 17, cmd-bury: 18
cmd-kick: 19, cmd-touch: 20, cmd-stats: 21, cmd-stats-job: 22, cmd-stats-tube: 23, cmd-list-tubes: 24, cmd-list-tube-used: 25
cmd-list-tubes-watched: 26, cmd-pause-tube: 27, job-timeouts: 28, total-jobs: 29, max-job-size: 30, current-tubes: 31
current-connections: 32, current-producers: 33, current-workers: 34, current-waiting: 35, total-connections: 36, pid: 37
version: "1.13", rusage-utime: 38.001234, rusage-stime: 0.999999, uptime: 40, binlog-oldest-index: 41, binlog-current-index: 42
binlog-records-migrated: 43, binlog-records-written: 44, binlog-max-size: 45, draining: false, id: 0123456789abcdef
hostname: "host", os: "#1 SMP", platform: "x86_64"`
	checkAppend(t, func(dst []byte) []byte { return AppendServerStats(dst, &s) }, reply(want))
	s.Draining = true
	want = strings.Replace(want, "draining: false", "draining: true", 1)
	checkAppend(t, func(dst []byte) []byte { return AppendServerStats(dst, &s) }, reply(want))
}
