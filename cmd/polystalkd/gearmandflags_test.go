package main

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"polystalk/cmd/internal/release"
)

// parseAsGearmand reads a command line in place of gearmand. The file of options is
// empty unless the line names one.
func parseAsGearmand(t *testing.T, env map[string]string, args ...string) (*Config, error) {
	t.Helper()
	if !strings.Contains(strings.Join(args, " "), "--config-file") {
		args = append(args, "--config-file", os.DevNull)
	}
	c, err := parseGearmand(args, func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}, "help")
	if err == nil {
		err = c.Validate()
	}
	return c, err
}

func TestGearmandFlags(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "conf")
	text := "# a comment\n--port=4731 -j 7\n\t--listen=::1   --listen localhost\r\n--exceptions --job-handle-prefix=file\n--config-file=ignored"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
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
		{"", "tcp://10.0.0.1:4730", func(c *Config) any { return fmt.Sprint(c.Port, len(c.warnings)) }, "47301"},

		{"", "", addressesOf, "tcp : v6only=true, none for beanstalkd"},
		{"-L localhost", "", addressesOf, "tcp localhost: v6only=true, none for beanstalkd"},
		{"-L localhost -L [::1] --port=1", "", addressesOf, "tcp localhost: tcp ::1: v6only=true, none for beanstalkd"},
		{"--config-file " + file, "", addressesOf, "tcp ::1: tcp localhost: v6only=true, none for beanstalkd"},
		{"-L 127.0.0.1 --config-file " + file, "", addressesOf, "tcp 127.0.0.1: v6only=true, none for beanstalkd"},
		{"--beanstalk-listen 127.0.0.1:11300 --beanstalk-listen unix:/run/s -p 0", "", func(c *Config) any {
			return fmt.Sprint(c.addresses[0].host, c.addresses[0].port, c.addresses[1].path)
		}, "127.0.0.111300/run/s"},

		{"-j3 --worker-wakeup 4 --exceptions --job-handle-prefix P --gearman-failed bury --gearman-shutdown none --gearman-max-body 99 --gearman-max-unread 98", "", func(c *Config) any {
			return c.router().Gearman
		}, "{P 99 98 3 4 true true 2 2.0.0+polystalk." + release.Version + " INFO}"},
		{"", "", func(c *Config) any { return c.router().Gearman }, "{ 67108864 0 0 0 false false 0 2.0.0+polystalk." + release.Version + " INFO}"},
		{"-j 1 --config-file " + file, "", func(c *Config) any { return c.router().Gearman }, "{file 67108864 0 1 0 false true 0 2.0.0+polystalk." + release.Version + " INFO}"},
		{"-q builtin --queue-type=builtin", "", func(c *Config) any { return len(c.warnings) }, "0"},

		{"--verbose FATAL", "", levelOf, "ERROR FATAL"},
		{"--verbose critical", "", levelOf, "ERROR CRITICAL"},
		{"--verbose=ERROR", "", levelOf, "ERROR ERROR"},
		{"--verbose=WARNING", "", levelOf, "WARN WARNING"},
		{"--verbose Notice", "", levelOf, "INFO NOTICE"},
		{"--verbose DEBUG", "", levelOf, "DEBUG DEBUG"},

		{"--keepalive", "", func(c *Config) any { return c.KeepAlive }, "{false 0s 0s 0}"},
		{"--keepalive --keepalive-idle 5", "", func(c *Config) any { return c.KeepAlive }, "{true 5s -1ns -1}"},
		{"--keepalive-count=9 --keepalive-interval 7 --keepalive-idle -1", "", func(c *Config) any { return c.KeepAlive }, "{true -1s 7s 9}"},

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
		c, err := parseAsGearmand(t, map[string]string{"GEARMAND_PORT": tt.env}, strings.Fields(tt.args)...)
		if err != nil {
			t.Errorf("%s: %v", tt.args, err)
			continue
		}
		if got := strings.TrimSpace(fmt.Sprint(tt.show(c))); got != tt.want {
			t.Errorf("%s (GEARMAND_PORT=%s):\n got %s\nwant %s", tt.args, tt.env, got, tt.want)
		}
	}
}

func addressesOf(c *Config) any {
	var all []string
	only := true
	for _, a := range c.Gearman.addresses {
		all = append(all, "tcp "+a.host+":")
		only = only && a.v6only
	}
	beanstalkd := "none for beanstalkd"
	if len(c.addresses) > 0 {
		beanstalkd = fmt.Sprint(c.addresses)
	}
	return fmt.Sprintf("%s v6only=%v, %s", strings.Join(all, " "), only, beanstalkd)
}

func levelOf(c *Config) any {
	level, err := c.logLevel()
	return fmt.Sprint(level, " ", c.router().Gearman.Verbose, map[bool]string{true: "", false: " fault"}[err == nil])
}

func journalOf(c *Config) any {
	return fmt.Sprint(c.BinlogDir, " ", c.FsyncEvery, " ", c.NoFsync, " ", c.BinlogSize)
}

// TestGearmandFlagsWithoutEffect: each says in the log why.
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
		c, err := parseAsGearmand(t, nil, strings.Fields(args)...)
		if err != nil {
			t.Errorf("%s: %v", args, err)
			continue
		}
		if len(c.warnings) != 1 || !strings.HasPrefix(c.warnings[0], want) {
			t.Errorf("%s: %q, want one that begins with %q", args, c.warnings, want)
		}
	}
}

// TestNormalLevelInGearmandsWords: what the command verbose answers without gearmand's
// command line.
func TestNormalLevelInGearmandsWords(t *testing.T) {
	for args, want := range map[string]string{
		"": "INFO", "--log-level warn": "WARNING", "--log-level error": "ERROR", "--log-level error -VV": "INFO", "-V": "DEBUG",
	} {
		c, err := parse(strings.Fields(args), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.router().Gearman.Verbose; got != want {
			t.Errorf("%q: %s, want %s", args, got, want)
		}
	}
}

// TestDaemonsPathsAreAbsolute: it leaves the working directory.
func TestDaemonsPathsAreAbsolute(t *testing.T) {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	c, err := parseAsGearmand(t, nil, strings.Fields("-d -P pid -l log --journal jobs --beanstalk-listen unix:s --beanstalk-listen 127.0.0.1:0")...)
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]string{"pid": c.PidFile, "log": c.LogFile, "jobs": c.BinlogDir, "s": c.addresses[0].path} {
		if got != filepath.Join(dir, name) {
			t.Errorf("%s has become %s", name, got)
		}
	}
	if c.addresses[1].path != "" {
		t.Errorf("an address has the path %q", c.addresses[1].path)
	}
	if c, err = parseAsGearmand(t, nil, "-d", "-l", "none"); err != nil || c.LogFile != "none" || c.PidFile != "" {
		t.Errorf("log %q, pid file %q, %v", c.LogFile, c.PidFile, err)
	}
}

func TestGearmandRefusals(t *testing.T) {
	dir := t.TempDir()
	conf := func(text string) string {
		f, err := os.CreateTemp(dir, "conf")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		return f.Name()
	}
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	for _, r := range []struct {
		args string
		env  string
		says []string
	}{
		{args: "--nosuch", says: []string{"--nosuch", "polystalkd gearmand --help"}},
		{args: "--verb INFO", says: []string{"--verb", "--help"}},
		{args: "-v", says: []string{"-v", "--verbose LEVEL", "-V"}},
		{args: "extra", says: []string{`"extra"`, "--help"}},
		{args: "gearmand", says: []string{`"gearmand"`}},
		{args: "-p", says: []string{"-p", "PORT"}},
		{args: "-p abc", says: []string{"flag -p", `"abc"`, "65535", "-p 4730"}},
		{args: "-p 99999", says: []string{"flag -p", `"99999"`, "65535"}},
		{env: "GEARMAND_PORT=abc", says: []string{"variable GEARMAND_PORT", `"abc"`, "65535"}},
		{args: "-L 127.0.0.1 -p " + port, says: []string{"-p", port, "-L", "127.0.0.1", "in use", "another port"}},
		{args: "-L 127.0.0.1", env: "GEARMAND_PORT=" + port, says: []string{"variable GEARMAND_PORT", port, "in use"}},
		{args: "-L 192.0.2.1", says: []string{"-L", `"192.0.2.1"`, "-L 0.0.0.0"}},
		{args: "-L no-such-host.invalid", says: []string{"-L", `"no-such-host.invalid"`, "resolves"}},
		{args: "-L 127.0.0.1:4730", says: []string{"-L", `"127.0.0.1:4730"`, "-L 127.0.0.1 -p 4730"}},
		{args: "--listen=", says: []string{"-L", "empty", "a name or an IP address"}},
		{args: "-L 127.0.0.1 -p0 --beanstalk-listen 127.0.0.1", says: []string{"--beanstalk-listen", `"127.0.0.1"`, "127.0.0.1:11300"}},
		{args: "-L 127.0.0.1 -p0 --beanstalk-listen 127.0.0.1:" + port, says: []string{"--beanstalk-listen", port, "in use"}},
		{args: "-L 127.0.0.1 -p0 --beanstalk-listen unix:", says: []string{"--beanstalk-listen", "path"}},
		{args: "-j x", says: []string{"-j", `"x"`, "number"}},
		{args: "-w -1", says: []string{"-w", "-1", "0 (all)"}},
		{args: "--job-handle-prefix " + strings.Repeat("p", 43), says: []string{"--job-handle-prefix", "42 bytes"}},
		{args: "-b 0", says: []string{"-b", `"0"`, "from 1"}},
		{args: "-b x", says: []string{"-b", `"x"`, "-b 128"}},
		{args: "-f many", says: []string{"-f", `"many"`, "64"}},
		{args: "-f 4294967296", says: []string{"-f", "4294967296", "64"}},
		{args: "-f 2147483647 -L 127.0.0.1 -p 0", says: []string{"-f", "2147483647", "at most"}},
		{args: "--keepalive-idle 0", says: []string{"--keepalive-idle", `"0"`, "-1"}},
		{args: "--keepalive-count 128", says: []string{"--keepalive-count", `"128"`, "127"}},
		{args: "--keepalive-interval soon", says: []string{"--keepalive-interval", `"soon"`}},
		{args: "--hashtable-buckets 0", says: []string{"--hashtable-buckets", `"0"`, "above 0"}},
		{args: "-t many", says: []string{"-t", `"many"`, "number"}},
		{args: "--verbose LOUD", says: []string{"--verbose", `"LOUD"`, "DEBUG"}},
		{args: "--gearman-max-body 0", says: []string{"--gearman-max-body", `"0"`, "1073741824"}},
		{args: "--gearman-max-unread 0", says: []string{"--gearman-max-unread", `"0"`, "1073741824"}},
		{args: "--gearman-max-body 1073741825", says: []string{"--gearman-max-body", "1073741824"}},
		{args: "--journal-fsync-ms soon", says: []string{"--journal-fsync-ms", `"soon"`, "--journal-fsync-ms 50"}},
		{args: "--journal-size big", says: []string{"--journal-size", `"big"`, "bytes"}},
		{args: "-L 127.0.0.1 -p0 --journal " + dir + "/no", says: []string{"--journal", dir + "/no", "no such file"}},
		{args: "-L 127.0.0.1 -p0 --journal=", says: []string{"--journal", "empty", "leave --journal out"}},
		{args: "-L 127.0.0.1 -p0 -u no-such-user", says: []string{"-u", `"no-such-user"`, "account"}},
		{args: "-L 127.0.0.1 -p0 -l " + dir + "/no/log", says: []string{"-l", dir + "/no/log", "stderr or none"}},
		{args: "-L 127.0.0.1 -p0 -l " + dir, says: []string{"-l", dir, "directory"}},
		{args: "-L 127.0.0.1 -p0 -l none -P " + dir + "/no/pid", says: []string{"-P", dir + "/no/pid"}},

		{args: "-q libsqlite3", says: []string{"-q", `"libsqlite3"`, "--journal DIR"}},
		{args: "--queue-type=MySQL", says: []string{"-q", `"MySQL"`, "--journal DIR"}},
		{args: "--libsqlite3-db=/x", says: []string{"--libsqlite3-db", "--journal DIR"}},
		{args: "--libpq-conninfo x", says: []string{"--libpq-conninfo", "--journal DIR"}},
		{args: "--mysql-host x", says: []string{"--mysql-host", "--journal DIR"}},
		{args: "--redis-server x", says: []string{"--redis-server", "--journal DIR"}},
		{args: "--libmemcached-servers x", says: []string{"--libmemcached-servers", "--journal DIR"}},
		{args: "--libdrizzle-db x", says: []string{"--libdrizzle-db", "--journal DIR"}},
		{args: "--libtokyocabinet-file x", says: []string{"--libtokyocabinet-file", "--journal DIR"}},
		{args: "--ssl", says: []string{"--ssl", "TLS proxy"}},
		{args: "--ssl-key x", says: []string{"--ssl-key", "TLS proxy"}},
		{args: "-r http", says: []string{"-r", "HTTP", "Gearman client"}},
		{args: "-r ftp", says: []string{"-r", `"ftp"`, "leave it out"}},
		{args: "--http-port=8080", says: []string{"--http-port", "Gearman client"}},

		{args: "--config-file " + dir + "/no", says: []string{"--config-file", dir + "/no", "no such file"}},
		{args: "--config-file " + conf("--nosuch"), says: []string{"file " + dir, "--nosuch"}},
		{args: "--config-file " + conf("extra"), says: []string{"file " + dir, `"extra"`}},
		{args: "--config-file " + conf("--ssl"), says: []string{"file " + dir, "--ssl", "TLS proxy"}},
		{args: "--config-file " + conf("--port=abc"), says: []string{"flag -p in " + dir, `"abc"`}},
		{args: "--config-file " + conf("-j x"), says: []string{"file " + dir, "-j", `"x"`}},
	} {
		t.Run(r.args+r.env, func(t *testing.T) {
			got := runToEnd(t, binary, cleanEnv(r.env), append([]string{"gearmand"}, strings.Fields(r.args)...)...)
			if got.code != exitGearmand || got.stdout != "" {
				t.Errorf("exit code %d, want %d; stdout %q", got.code, exitGearmand, got.stdout)
			}
			if strings.Count(got.stderr, "\n") != 1 || !strings.HasPrefix(got.stderr, "polystalkd gearmand: ") {
				t.Errorf("stderr is not one line of ours: %q", got.stderr)
			}
			for _, want := range r.says {
				if !strings.Contains(got.stderr, want) {
					t.Errorf("stderr does not hold %q: %s", want, got.stderr)
				}
			}
		})
	}
}

func TestGearmandHelpVersionAndCheck(t *testing.T) {
	for _, args := range []string{"gearmand --help", "gearmand -h", "gearmand -p 0 --help", "gearmand --check-args -h", "gearmand help", "help gearmand"} {
		got := runToEnd(t, binary, cleanEnv(), strings.Fields(args)...)
		if got.code != 0 || got.stderr != "" {
			t.Errorf("%s: %+v", args, got)
		}
		for _, flag := range []string{"-p", "-L", "-j", "-w", "-R", "-q", "-l", "-P", "-d", "-b", "-f", "-u", "-t", "-V", "-h",
			"--job-handle-prefix", "--exceptions", "--syslog", "--verbose", "--config-file", "--keepalive", "--keepalive-idle",
			"--hashtable-buckets", "--journal", "--beanstalk-listen", "--gearman-max-body", "--loops"} {
			if !strings.Contains(got.stdout, " "+flag+",") && !strings.Contains(got.stdout, " "+flag+" ") {
				t.Errorf("%s does not explain %s", args, flag)
			}
		}
	}
	for _, args := range []string{"--version", "-V", "-p 0 -V", "version"} {
		got := runToEnd(t, binary, cleanEnv(), append([]string{"gearmand"}, strings.Fields(args)...)...)
		if got.code != 0 || got.stderr != "" || !strings.HasPrefix(got.stdout, "polystalkd "+release.Version+" (speaks Gearman as gearmand 2.0.0") {
			t.Errorf("%s: %+v", args, got)
		}
	}
	dir := t.TempDir()
	for _, args := range []string{"--check-args", "--check-args -d -P " + dir + "/pid -l " + dir + "/log -t 4 --hashtable-buckets 991"} {
		got := runToEnd(t, binary, cleanEnv(), append([]string{"gearmand"}, strings.Fields(args)...)...)
		if got != (outcome{}) {
			t.Errorf("%s: %+v", args, got)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("a check leaves %v, %v", left, err)
	}
	if got := runToEnd(t, binary, cleanEnv(), "-h"); !strings.Contains(got.stdout, "polystalkd gearmand") {
		t.Errorf("-h does not name gearmand's command line: %s", got.stdout)
	}
}

// TestListenersKeepToTheirFamily: gearmand's listeners for IPv6 take no clients of IPv4,
// beanstalkd's :: is for both.
func TestListenersKeepToTheirFamily(t *testing.T) {
	for _, tt := range []struct {
		ip     string
		v6only bool
		want   string
	}{
		{"0.0.0.0", false, "tcp4"}, {"0.0.0.0", true, "tcp4"}, {"127.0.0.1", true, "tcp4"},
		{"::", false, "tcp"}, {"::", true, "tcp6"}, {"::1", false, "tcp6"}, {"::1", true, "tcp6"},
	} {
		a := address{v6only: tt.v6only}
		if got := a.network(netip.MustParseAddr(tt.ip)); got != tt.want {
			t.Errorf("%s, v6only %v: %s, want %s", tt.ip, tt.v6only, got, tt.want)
		}
	}
}

// TestKeepAliveReachesConnections: with the timing that was asked for, or the system's.
func TestKeepAliveReachesConnections(t *testing.T) {
	fresh, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fresh)
	system := option(t, fresh, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL)

	for args, want := range map[string]int{"--keepalive --keepalive-idle 50 --keepalive-interval 7": 7, "": system} {
		c, err := parseAsGearmand(t, nil, strings.Fields("-L 127.0.0.1 -p 0 "+args)...)
		if err != nil {
			t.Fatal(err)
		}
		ls, err := listenTCP(c.gearmanTCP(), c.Gearman.addresses[0])
		if err != nil {
			t.Fatal(err)
		}
		defer closeAll(ls)
		dial(t, ls[0].Addr().String())
		// Accepted as the server does: nothing is set on the connection.
		l := fileOf(t, ls[0].(*net.TCPListener))
		conn := -1
		for end := time.Now().Add(hang); conn < 0; time.Sleep(time.Millisecond) {
			if conn, _, err = syscall.Accept(int(l.Fd())); err != nil && time.Now().After(end) {
				t.Fatal(err)
			}
		}
		defer syscall.Close(conn)
		if on := option(t, conn, syscall.SOL_SOCKET, syscall.SO_KEEPALIVE); on == 0 {
			t.Errorf("%q: no keep-alive", args)
		}
		if got := option(t, conn, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL); got != want {
			t.Errorf("%q: a probe every %d seconds, want %d", args, got, want)
		}
	}
}

func option(t *testing.T, fd, level, name int) int {
	t.Helper()
	v, err := syscall.GetsockoptInt(fd, level, name)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
