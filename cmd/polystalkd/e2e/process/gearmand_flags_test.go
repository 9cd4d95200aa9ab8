package process

import (
	"net"
	"os"
	"strings"
	"testing"

	"polystalk/cmd/internal/release"
	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/cmd/polystalkd/fault"
)

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
			got := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(r.env), append([]string{"gearmand"}, strings.Fields(r.args)...)...)
			if got.Code != fault.Gearmand || got.Stdout != "" {
				t.Errorf("exit code %d, want %d; stdout %q", got.Code, fault.Gearmand, got.Stdout)
			}
			if strings.Count(got.Stderr, "\n") != 1 || !strings.HasPrefix(got.Stderr, "polystalkd gearmand: ") {
				t.Errorf("stderr is not one line of ours: %q", got.Stderr)
			}
			for _, want := range r.says {
				if !strings.Contains(got.Stderr, want) {
					t.Errorf("stderr does not hold %q: %s", want, got.Stderr)
				}
			}
		})
	}
}

func TestGearmandHelpVersionAndCheck(t *testing.T) {
	for _, args := range []string{"gearmand --help", "gearmand -h", "gearmand -p 0 --help", "gearmand --check-args -h", "gearmand help", "help gearmand"} {
		got := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(), strings.Fields(args)...)
		if got.Code != 0 || got.Stderr != "" {
			t.Errorf("%s: %+v", args, got)
		}
		for _, flag := range []string{"-p", "-L", "-j", "-w", "-R", "-q", "-l", "-P", "-d", "-b", "-f", "-u", "-t", "-V", "-h",
			"--job-handle-prefix", "--exceptions", "--syslog", "--verbose", "--config-file", "--keepalive", "--keepalive-idle",
			"--hashtable-buckets", "--journal", "--beanstalk-listen", "--gearman-max-body", "--loops"} {
			if !strings.Contains(got.Stdout, " "+flag+",") && !strings.Contains(got.Stdout, " "+flag+" ") {
				t.Errorf("%s does not explain %s", args, flag)
			}
		}
	}
	for _, args := range []string{"--version", "-V", "-p 0 -V", "version"} {
		got := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(), append([]string{"gearmand"}, strings.Fields(args)...)...)
		if got.Code != 0 || got.Stderr != "" || !strings.HasPrefix(got.Stdout, "polystalkd "+release.Version+" (speaks Gearman as gearmand 2.0.0") {
			t.Errorf("%s: %+v", args, got)
		}
	}
	dir := t.TempDir()
	for _, args := range []string{"--check-args", "--check-args -d -P " + dir + "/pid -l " + dir + "/log -t 4 --hashtable-buckets 991"} {
		got := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(), append([]string{"gearmand"}, strings.Fields(args)...)...)
		if got != (daemon.Outcome{}) {
			t.Errorf("%s: %+v", args, got)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("a check leaves %v, %v", left, err)
	}
	if got := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(), "-h"); !strings.Contains(got.Stdout, "polystalkd gearmand") {
		t.Errorf("-h does not name gearmand's command line: %s", got.Stdout)
	}
}
