package beanstalk

import (
	"strconv"
	"time"
)

// The three stats bodies look like YAML, but some clients read them by line number or with
// regular expressions. So keys, order and quotes are exactly as in beanstalkd 1.13, and none is
// ever added. Strings are between double quotes without escapes, as in beanstalkd. No tube name
// needs an escape; other names are passed in with their escapes.

// JobStats is the body of the reply to stats-job. Ages and times are whole seconds.
type JobStats struct {
	ID       uint64
	Tube     string
	State    string // ready, delayed, reserved, buried
	Pri      uint32
	Age      int64 // since the put
	Delay    int64 // as set by the last put or release
	TTR      int64
	TimeLeft int64 // until the deadline if reserved or delayed, else 0
	File     int   // number of the journal's file with the job's record, 0 without a journal
	Reserves uint32
	Timeouts uint32
	Releases uint32
	Buries   uint32
	Kicks    uint32
}

// AppendJobStats appends the whole reply to a stats-job.
func AppendJobStats(dst []byte, s *JobStats) []byte {
	start := len(dst)
	dst = append(dst, "---\n"...)
	dst = appendUint(dst, "id", s.ID)
	dst = appendQuoted(dst, "tube", s.Tube)
	dst = appendBare(dst, "state", s.State)
	dst = appendUint(dst, "pri", uint64(s.Pri))
	dst = appendInt(dst, "age", s.Age)
	dst = appendInt(dst, "delay", s.Delay)
	dst = appendInt(dst, "ttr", s.TTR)
	dst = appendInt(dst, "time-left", s.TimeLeft)
	dst = appendInt(dst, "file", int64(s.File))
	dst = appendUint(dst, "reserves", uint64(s.Reserves))
	dst = appendUint(dst, "timeouts", uint64(s.Timeouts))
	dst = appendUint(dst, "releases", uint64(s.Releases))
	dst = appendUint(dst, "buries", uint64(s.Buries))
	dst = appendUint(dst, "kicks", uint64(s.Kicks))
	return frame(dst, start)
}

// TubeStats is the body of the reply to stats-tube.
type TubeStats struct {
	Name          string
	Urgent        uint64 // ready with a priority under 1024
	Ready         uint64
	Reserved      uint64
	Delayed       uint64
	Buried        uint64
	TotalJobs     uint64 // ever put into this tube
	Using         uint64 // connections
	Watching      uint64 // connections
	Waiting       uint64 // connections in a reserve that watch this tube
	CmdDelete     uint64 // jobs deleted from this tube
	CmdPause      uint64
	Pause         int64 // seconds of the pause in force, 0 if none
	PauseTimeLeft int64 // seconds
}

// AppendTubeStats appends the whole reply to a stats-tube.
func AppendTubeStats(dst []byte, s *TubeStats) []byte {
	start := len(dst)
	dst = append(dst, "---\n"...)
	dst = appendQuoted(dst, "name", s.Name)
	dst = appendUint(dst, "current-jobs-urgent", s.Urgent)
	dst = appendUint(dst, "current-jobs-ready", s.Ready)
	dst = appendUint(dst, "current-jobs-reserved", s.Reserved)
	dst = appendUint(dst, "current-jobs-delayed", s.Delayed)
	dst = appendUint(dst, "current-jobs-buried", s.Buried)
	dst = appendUint(dst, "total-jobs", s.TotalJobs)
	dst = appendUint(dst, "current-using", s.Using)
	dst = appendUint(dst, "current-watching", s.Watching)
	dst = appendUint(dst, "current-waiting", s.Waiting)
	dst = appendUint(dst, "cmd-delete", s.CmdDelete)
	dst = appendUint(dst, "cmd-pause-tube", s.CmdPause)
	dst = appendInt(dst, "pause", s.Pause)
	dst = appendInt(dst, "pause-time-left", s.PauseTimeLeft)
	return frame(dst, start)
}

// ServerStats is the body of the reply to stats. Its fields have the names and the order of the
// keys; Cmd has all counters cmd-*.
type ServerStats struct {
	CurrentJobsUrgent     uint64 // ready with a priority under 1024
	CurrentJobsReady      uint64
	CurrentJobsReserved   uint64
	CurrentJobsDelayed    uint64
	CurrentJobsBuried     uint64
	Cmd                   [NumKinds]uint64 // by Kind; quit, kick-job and reserve-job have no key
	JobTimeouts           uint64
	TotalJobs             uint64
	MaxJobSize            uint64 // bytes
	CurrentTubes          uint64
	CurrentConnections    uint64
	CurrentProducers      uint64
	CurrentWorkers        uint64
	CurrentWaiting        uint64
	TotalConnections      uint64
	PID                   int
	Version               string
	RusageUtime           time.Duration // shown to the microsecond
	RusageStime           time.Duration // shown to the microsecond
	Uptime                int64         // seconds
	BinlogOldestIndex     int
	BinlogCurrentIndex    int
	BinlogRecordsMigrated int64
	BinlogRecordsWritten  int64
	BinlogMaxSize         int64 // bytes
	Draining              bool
	ID                    string // 16 hexadecimal digits
	Hostname              string
	OS                    string
	Platform              string
}

// statsCmds are the commands that stats counts, in the order of its keys.
var statsCmds = [...]Kind{
	Put, Peek, PeekReady, PeekDelayed, PeekBuried, Reserve, ReserveWithTimeout, Delete, Release, Use, Watch,
	Ignore, Bury, Kick, Touch, Stats, StatsJob, StatsTube, ListTubes, ListTubeUsed, ListTubesWatched, PauseTube,
}

// AppendServerStats appends the whole reply to a stats.
func AppendServerStats(dst []byte, s *ServerStats) []byte {
	start := len(dst)
	dst = append(dst, "---\n"...)
	dst = appendUint(dst, "current-jobs-urgent", s.CurrentJobsUrgent)
	dst = appendUint(dst, "current-jobs-ready", s.CurrentJobsReady)
	dst = appendUint(dst, "current-jobs-reserved", s.CurrentJobsReserved)
	dst = appendUint(dst, "current-jobs-delayed", s.CurrentJobsDelayed)
	dst = appendUint(dst, "current-jobs-buried", s.CurrentJobsBuried)
	for _, kind := range statsCmds {
		dst = append(dst, "cmd-"...)
		dst = appendUint(dst, kind.String(), s.Cmd[kind])
	}
	dst = appendUint(dst, "job-timeouts", s.JobTimeouts)
	dst = appendUint(dst, "total-jobs", s.TotalJobs)
	dst = appendUint(dst, "max-job-size", s.MaxJobSize)
	dst = appendUint(dst, "current-tubes", s.CurrentTubes)
	dst = appendUint(dst, "current-connections", s.CurrentConnections)
	dst = appendUint(dst, "current-producers", s.CurrentProducers)
	dst = appendUint(dst, "current-workers", s.CurrentWorkers)
	dst = appendUint(dst, "current-waiting", s.CurrentWaiting)
	dst = appendUint(dst, "total-connections", s.TotalConnections)
	dst = appendInt(dst, "pid", int64(s.PID))
	dst = appendQuoted(dst, "version", s.Version)
	dst = appendMicros(dst, "rusage-utime", s.RusageUtime)
	dst = appendMicros(dst, "rusage-stime", s.RusageStime)
	dst = appendInt(dst, "uptime", s.Uptime)
	dst = appendInt(dst, "binlog-oldest-index", int64(s.BinlogOldestIndex))
	dst = appendInt(dst, "binlog-current-index", int64(s.BinlogCurrentIndex))
	dst = appendInt(dst, "binlog-records-migrated", s.BinlogRecordsMigrated)
	dst = appendInt(dst, "binlog-records-written", s.BinlogRecordsWritten)
	dst = appendInt(dst, "binlog-max-size", s.BinlogMaxSize)
	dst = appendBare(dst, "draining", strconv.FormatBool(s.Draining))
	dst = appendBare(dst, "id", s.ID)
	dst = appendQuoted(dst, "hostname", s.Hostname)
	dst = appendQuoted(dst, "os", s.OS)
	dst = appendQuoted(dst, "platform", s.Platform)
	return frame(dst, start)
}

func appendKey(dst []byte, key string) []byte {
	dst = append(dst, key...)
	return append(dst, ": "...)
}

func appendUint(dst []byte, key string, v uint64) []byte {
	dst = strconv.AppendUint(appendKey(dst, key), v, 10)
	return append(dst, '\n')
}

func appendInt(dst []byte, key string, v int64) []byte {
	dst = strconv.AppendInt(appendKey(dst, key), v, 10)
	return append(dst, '\n')
}

func appendBare(dst []byte, key, v string) []byte {
	dst = append(appendKey(dst, key), v...)
	return append(dst, '\n')
}

func appendQuoted(dst []byte, key, v string) []byte {
	dst = append(appendKey(dst, key), '"')
	dst = append(dst, v...)
	return append(dst, "\"\n"...)
}

// appendMicros writes d, which is not negative, as seconds, a dot and six digits.
func appendMicros(dst []byte, key string, d time.Duration) []byte {
	dst = strconv.AppendInt(appendKey(dst, key), int64(d/time.Second), 10)
	dst = append(dst, '.')
	micros := int64(d % time.Second / time.Microsecond)
	for unit := int64(100_000); unit > 0; unit /= 10 {
		dst = append(dst, byte('0'+micros/unit%10))
	}
	return append(dst, '\n')
}
