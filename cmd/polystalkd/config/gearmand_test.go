package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"polystalk/cmd/internal/program"
)

func TestGearmandFlags(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "conf")
	text := "# a comment\n--port=4731 -j 7\n\t--listen=::1   --listen localhost\r\n--exceptions --job-handle-prefix=file\n--config-file=ignored"
	must(t, os.WriteFile(file, []byte(text), 0o600))
	for _, tt := range []struct {
		args string
		env  string
		show func(c *Config) any
		want string
	}{
		{"", "", func(c *Config) any { return c.Port }, "4730"},
		{"", "4731", func(c *Config) any { return c.Port }, "4731"},
		{"-p 4732", "4731", func(c *Config) any { return c.Port }, "4732"},
		{"-p 4730", "4731", func(c *Config) any { return c.Port }, "4730"},
		{"--config-file " + file, "4732", func(c *Config) any { return c.Port }, "4731"},
		{"-p4733 --config-file " + file, "", func(c *Config) any { return c.Port }, "4733"},
		{"", "tcp://10.0.0.1:4730", func(c *Config) any { return fmt.Sprint(c.Port, len(c.Warnings)) }, "47301"},

		{"", "", addressesOf, "tcp : v6only=true, none for beanstalkd"},
		{"-L localhost", "", addressesOf, "tcp localhost: v6only=true, none for beanstalkd"},
		{"-L localhost -L [::1] --port=1", "", addressesOf, "tcp localhost: tcp ::1: v6only=true, none for beanstalkd"},
		{"--config-file " + file, "", addressesOf, "tcp ::1: tcp localhost: v6only=true, none for beanstalkd"},
		{"-L 127.0.0.1 --config-file " + file, "", addressesOf, "tcp 127.0.0.1: v6only=true, none for beanstalkd"},
		{"--beanstalk-listen 127.0.0.1:11300 --beanstalk-listen unix:/run/s -p 0", "", func(c *Config) any {
			return fmt.Sprint(c.Addresses[0].Host, c.Addresses[0].Port, c.Addresses[1].Path)
		}, "127.0.0.111300/run/s"},

		{"-j3 --worker-wakeup 4 --exceptions --job-handle-prefix P --gearman-failed bury --gearman-shutdown none --gearman-max-body 99 --gearman-max-unread 98", "", func(c *Config) any {
			return c.Router().Gearman
		}, "{P false 99 98 3 4 true true 2 2.0.0+polystalk." + program.Version + " INFO}"},
		{"", "", func(c *Config) any { return c.Router().Gearman }, "{ false 67108864 0 0 0 false false 0 2.0.0+polystalk." + program.Version + " INFO}"},
		{"-j 1 --config-file " + file, "", func(c *Config) any { return c.Router().Gearman }, "{file false 67108864 0 1 0 false true 0 2.0.0+polystalk." + program.Version + " INFO}"},
		{"-q builtin --queue-type=builtin", "", func(c *Config) any { return len(c.Warnings) }, "0"},

		{"--verbose FATAL", "", levelOf, "ERROR FATAL"},
		{"--verbose critical", "", levelOf, "ERROR CRITICAL"},
		{"--verbose=ERROR", "", levelOf, "ERROR ERROR"},
		{"--verbose=WARNING", "", levelOf, "WARN WARNING"},
		{"--verbose Notice", "", levelOf, "INFO NOTICE"},
		{"--verbose DEBUG", "", levelOf, "DEBUG DEBUG"},

		{"--keepalive", "", func(c *Config) any { return c.KeepAlive }, "{-1 -1 -1}"},
		{"--keepalive --keepalive-idle 5", "", func(c *Config) any { return c.KeepAlive }, "{5 -1 -1}"},
		{"--keepalive-count=9 --keepalive-interval 7 --keepalive-idle -1", "", func(c *Config) any { return c.KeepAlive }, "{-1 7 9}"},

		{"-b 7 -f 100 -l none --syslog -P p -u me", "", func(c *Config) any {
			return fmt.Sprintln(c.Backlog, c.Descriptors, c.LogFile, c.Syslog, c.PidFile, c.User, c.Daemon, c.CheckArgs)
		}, "7 100 none true p me false false"},
		{"-b7 -f100 -lx -u me --check-args", "", func(c *Config) any {
			return fmt.Sprintln(c.Backlog, c.Descriptors, c.LogFile, c.User, c.CheckArgs)
		}, "7 100 x me true"},

		{"--journal d --journal-fsync-ms 50 --journal-size 1000000", "", journalOf, "d 50ms false 1000000"},
		{"--journal d --journal-no-fsync", "", journalOf, "d 0s true 10485760"},
		{"--loops 2 --shards 8 --max-connections 9 --connection-memory 900000000 --max-job-size 10 --log-format json", "", func(c *Config) any {
			return fmt.Sprintln(c.Loops, c.Shards, c.MaxConnections, c.ConnectionMemory, c.MaxJobSize, c.LogFormat)
		}, "2 8 9 900000000 10 json"},
	} {
		c := valid(t)(parseGearmand(strings.Fields(tt.args), map[string]string{"GEARMAND_PORT": tt.env}))
		if got := strings.TrimSpace(fmt.Sprint(tt.show(c))); got != tt.want {
			t.Errorf("%s (GEARMAND_PORT=%s):\n got %s\nwant %s", tt.args, tt.env, got, tt.want)
		}
	}
}

func addressesOf(c *Config) any {
	var all []string
	only := true
	for _, a := range c.Gearman.Addresses {
		all = append(all, "tcp "+a.Host+":")
		only = only && a.V6Only
	}
	beanstalkd := "none for beanstalkd"
	if len(c.Addresses) > 0 {
		beanstalkd = fmt.Sprint(c.Addresses)
	}
	return fmt.Sprintf("%s v6only=%v, %s", strings.Join(all, " "), only, beanstalkd)
}

func levelOf(c *Config) any {
	level, err := c.Level()
	return fmt.Sprint(level, " ", c.Router().Gearman.Verbose, map[bool]string{true: "", false: " fault"}[err == nil])
}

func journalOf(c *Config) any {
	return fmt.Sprint(c.BinlogDir, " ", c.FsyncEvery, " ", c.NoFsync, " ", c.BinlogSize)
}

// TestGearmandFlagsWithoutEffect: the log says why each has no effect.
func TestGearmandFlagsWithoutEffect(t *testing.T) {
	for args, want := range map[string]string{
		"-t 8":                      "flag -t has no effect: there is one event loop per core",
		"--threads=0":               "flag -t has no effect",
		"--hashtable-buckets 99991": "flag --hashtable-buckets has no effect: tables grow",
		"-R":                        "flag -R has no effect: functions of the same priority always take turns",
		"--round-robin":             "flag -R has no effect",
		"--coredump":                "flag --coredump has no effect: GOTRACEBACK=crash",
		"--store-queue-on-shutdown": "flag --store-queue-on-shutdown has no effect: --journal DIR",
	} {
		c := valid(t)(parseGearmand(strings.Fields(args), nil))
		if len(c.Warnings) != 1 || !strings.HasPrefix(c.Warnings[0], want) {
			t.Errorf("%s: %q, want one that begins with %q", args, c.Warnings, want)
		}
	}
}

// TestNormalLevelInGearmandsWords: the reply to the command verbose without gearmand's command
// line.
func TestNormalLevelInGearmandsWords(t *testing.T) {
	for args, want := range map[string]string{
		"": "INFO", "--log-level warn": "WARNING", "--log-level error": "ERROR", "--log-level error -VV": "INFO", "-V": "DEBUG",
	} {
		c, err := parse(strings.Fields(args), nil)
		must(t, err)
		if got := c.Router().Gearman.Verbose; got != want {
			t.Errorf("%q: %s, want %s", args, got, want)
		}
	}
}

// TestDaemonsPathsAreAbsolute, because a daemon leaves the working directory.
func TestDaemonsPathsAreAbsolute(t *testing.T) {
	dir, err := os.Getwd()
	must(t, err)
	c := valid(t)(parseGearmand(strings.Fields("-d -P pid -l log --journal jobs --beanstalk-listen unix:s --beanstalk-listen 127.0.0.1:0"), nil))
	for name, got := range map[string]string{"pid": c.PidFile, "log": c.LogFile, "jobs": c.BinlogDir, "s": c.Addresses[0].Path} {
		if got != filepath.Join(dir, name) {
			t.Errorf("%s has become %s", name, got)
		}
	}
	if c.Addresses[1].Path != "" {
		t.Errorf("an address has the path %q", c.Addresses[1].Path)
	}
	if c = valid(t)(parseGearmand([]string{"-d", "-l", "none"}, nil)); c.LogFile != "none" || c.PidFile != "" {
		t.Errorf("log %q, pid file %q", c.LogFile, c.PidFile)
	}
}
