package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"polystalk/cmd/internal/program"
	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/cmd/polystalkd/fault"
	"polystalk/codec/binlog"
)

// A refusal is a start that must fail, with the reference's exit code if the reference has the
// flag.
type refusal struct {
	name string // by which other tests know it
	args string // with spaces between them; '' is an empty one
	env  string // variables, likewise
	code int
	says string // what the one line on stderr must hold, before the line of a file: flag, value, remedy; | between them
	ours bool   // not for the reference: it has no such flag, or accepts it
}

// list splits the arguments.
func list(text string) (args []string) {
	for a := range strings.FieldsSeq(text) {
		args = append(args, strings.Trim(a, "'"))
	}
	return args
}

// refuses checks how a program refuses to start.
func (r *refusal) refuses(t *testing.T, prefix string, args ...string) {
	t.Helper()
	t.Run(r.name+r.args+r.env, func(t *testing.T) {
		got := run(t, list(r.env), append(args, list(r.args)...)...)
		if strings.Count(got.Stderr, "\n    ") == 0 && strings.Count(got.Stderr, "\n") != 1 || !strings.HasPrefix(got.Stderr, prefix+": ") || got.Stdout != "" {
			t.Errorf("stderr is not one line of ours, or stdout is not empty: %+v", got)
		}
		wants(t, got, r.code, strings.Split(r.says, "|")...)
	})
}

func refusals(t *testing.T) []refusal {
	dir := t.TempDir()
	file, broken := filepath.Join(dir, "file"), filepath.Join(dir, "broken")
	write(t, file, "precious")
	write(t, broken, "nonsense\n")
	port, inUse, damaged := takenPort(t), t.TempDir(), t.TempDir()
	lock, err := binlog.Lock(inUse)
	must(t, err)
	t.Cleanup(func() { lock.Unlock() })
	write(t, filepath.Join(damaged, "journal.0000000001"), "precious")

	rows := []refusal{
		{name: "unknown letter", args: "-x", code: fault.Usage, says: "-x|polystalkd -h"},
		{name: "unknown letter in a group", args: "-Vx", code: fault.Usage, says: "-x"},
		{name: "unknown letter before -v", args: "-xv", code: fault.Usage, says: "-x"},
		{name: "unknown long flag", args: "--frobnicate=1", code: fault.Usage, says: "--frobnicate|polystalkd -h"},
		{name: "argument", args: "extra", code: fault.Usage, says: `"extra"|polystalkd -h`},
		{name: "argument behind flags", args: "-p 0 extra", code: fault.Usage, says: `"extra"`},
		{name: "lone dash", args: "-", code: fault.Usage, says: `"-"`},
		{name: "empty argument", args: "''", code: fault.Usage, says: `""`},

		{name: "connection memory of letters", args: "--connection-memory much", code: fault.Usage, says: `--connection-memory|"much"|bytes`, ours: true},
		{name: "connection memory below zero", env: "POLYSTALKD_CONNECTION_MEMORY=-1", code: fault.Usage, says: `POLYSTALKD_CONNECTION_MEMORY|"-1"|bytes`, ours: true},
		{name: "size of letters", args: "-z abc", code: fault.Usage, says: `-z|"abc"|bytes`},
		{name: "size with a unit", args: "-z12k", code: fault.Usage, says: `-z|"12k"|bytes`},
		{name: "empty size", args: "-z ''", code: fault.Usage, says: `-z|""|bytes`},
		{name: "no size", args: "-z", code: fault.Usage, says: "-z|BYTES"},
		{name: "no address", args: "-l", code: fault.Usage, says: "-l|ADDR"},
		{name: "no port", args: "-p", code: fault.Usage, says: "-p|PORT"},
		{name: "no user", args: "-u", code: fault.Usage, says: "-u|USER"},
		{name: "no directory", args: "-b", code: fault.Usage, says: "-b|DIR"},
		{name: "fsync of letters", args: "-f soon", code: fault.Usage, says: `-f|"soon"|milliseconds`},
		{name: "fsync below zero", args: "-f-1", code: fault.Usage, says: `-f|"-1"|milliseconds`, ours: true},
		{name: "binlog size of letters", args: "-s big", code: fault.Usage, says: `-s|"big"|bytes`},
		{name: "binlog size below zero", args: "-s-1", code: fault.Usage, says: `-s|"-1"|bytes`, ours: true},

		{name: "port of letters", args: "-p abc", code: fault.System, says: `-p|"abc"|65535`},
		{name: "port with a tail", args: "-p11300x", code: fault.System, says: `-p|"11300x"|65535`},
		{name: "port below zero", args: "-p -1", code: fault.System, says: `-p|"-1"|65535`},
		{name: "port too large", args: "-p 70000", code: fault.System, says: `-p|"70000"|65535`, ours: true},
		{name: "port taken", args: "-l 127.0.0.1 -p " + port, code: fault.System, says: "-p|" + port + "|127.0.0.1|in use|another port"},
		{name: "empty address", args: "-l ''", code: fault.System, says: "-l|address"},
		{name: "unknown host", args: "-l no-such-host.invalid", code: fault.System, says: `-l|"no-such-host.invalid"|-l 0.0.0.0`},
		{name: "not our address", args: "-l 192.0.2.1", code: fault.System, says: `-l|"192.0.2.1"|-l 0.0.0.0`},
		{name: "port in the address", args: "-l 127.0.0.1:11300", code: fault.System, says: `-l|"127.0.0.1:11300"|-p 11300`},
		{name: "one address of two", args: "-l 127.0.0.1 -p0 -l 192.0.2.1", code: fault.System, says: `-l|"192.0.2.1"`},
		{name: "unix path empty", args: "-l unix:", code: fault.System, says: `-l|"unix:"|path`, ours: true},
		{name: "unix path too long", args: "-l unix:/" + strings.Repeat("x", 200), code: fault.System, says: "-l|201|shorter"},
		{name: "unix path a directory", args: "-l unix:" + dir, code: fault.System, says: "-l|" + dir + "|directory|name a file"},
		{name: "unix path a file", args: "-l unix:" + file, code: fault.System, says: "-l|" + file + "|regular file|another path"},
		{name: "unix path below nothing", args: "-l unix:" + dir + "/no/s", code: fault.System, says: "-l|" + dir + "/no/s|directory"},

		{name: "unknown user", args: "-l127.0.0.1 -p0 -u no-such-user", code: fault.NoUser, says: `-u|"no-such-user"|account`},
		{name: "journal", args: "-p0 -b " + dir + "/missing", code: fault.Journal, says: "-b|missing|no such file or directory"},
		{name: "journal in use", args: "-p0 -b " + inUse, code: fault.Journal, says: "-b|" + inUse + "|in use"},
		{name: "journal damaged", args: "-p0 -b " + damaged, code: fault.Journal, says: "-b|journal.0000000001|offset 0|journal salvage", ours: true},
		{name: "journal without a name", args: "-p0 -b ''", code: fault.Journal, says: "-b|directory", ours: true},

		{name: "loops of letters", args: "--loops many", code: fault.Usage, says: `--loops|"many"|number`, ours: true},
		{name: "loops below zero", args: "--loops=-1", code: fault.Usage, says: "--loops|-1|one per core", ours: true},
		{name: "loops beyond the limit", args: "--loops=1025", code: fault.Usage, says: "--loops|1025|1024", ours: true},
		{name: "shards not a power of two", args: "--shards 6", code: fault.Usage, says: "--shards|6|power of two", ours: true},
		{name: "shards beyond the limit", args: "--shards 8192", code: fault.Usage, says: "--shards|8192|4096", ours: true},
		{name: "connections below zero", args: "--max-connections -5", code: fault.Usage, says: "--max-connections|-5|0", ours: true},
		{name: "log level", args: "--log-level loud", code: fault.Usage, says: `--log-level|"loud"|debug, info, warn or error`, ours: true},
		{name: "log format", args: "--log-format xml", code: fault.Usage, says: `--log-format|"xml"|text or json`, ours: true},

		{name: "variable with a bad size", env: "POLYSTALKD_MAX_JOB_SIZE=big", code: fault.Usage, says: `POLYSTALKD_MAX_JOB_SIZE|"big"|bytes`, ours: true},
		{name: "variable with a bad number", env: "POLYSTALKD_SHARDS=x", code: fault.Usage, says: `POLYSTALKD_SHARDS|"x"|number`, ours: true},
		{name: "variable out of range", env: "POLYSTALKD_SHARDS=6", code: fault.Usage, says: "POLYSTALKD_SHARDS|6|power of two", ours: true},
		{name: "variable with a bad choice", env: "POLYSTALKD_NO_FSYNC=perhaps", code: fault.Usage, says: `POLYSTALKD_NO_FSYNC|"perhaps"|true or false`, ours: true},
		{name: "variable with a bad port", env: "POLYSTALKD_PORT=abc", code: fault.System, says: `POLYSTALKD_PORT|"abc"|65535`, ours: true},
		{name: "variable with a bad address", env: "POLYSTALKD_LISTEN=127.0.0.1,unix:" + file + " POLYSTALKD_PORT=0", code: fault.System, says: "POLYSTALKD_LISTEN|" + file + "|regular file", ours: true},
		{name: "variable with a directory", env: "POLYSTALKD_PORT=0 POLYSTALKD_BINLOG_DIR=" + inUse, code: fault.Journal, says: "POLYSTALKD_BINLOG_DIR|" + inUse + "|in use", ours: true},
		{name: "variable with a bad user", env: "POLYSTALKD_USER=no-such-user", code: fault.NoUser, says: "POLYSTALKD_USER|no-such-user", ours: true},
	}
	for _, r := range []refusal{
		{args: "--http 0.0.0.0:0", says: "--http|other machines|--access-file"},
		{args: "--http :0", says: "other machines"},
		{args: "--http [::]:0", says: "other machines"},
		{args: "--http 192.0.2.1:80", says: "other machines"},
		{args: "--http 11380", says: "not an address with a port|127.0.0.1:11380"},
		{args: "--access-file " + dir + "/none", says: dir + "/none|cannot be read|give a file"},
		{args: "--access-file " + broken, says: broken + ":1:"},
		{args: "--access-file " + broken + " --http-anonymous read", says: "--http-anonymous|[identity.default]"},
		{args: "--http 127.0.0.1:0 --http-tokens-file " + broken, says: "--http-tokens-file|removed|polystalk access convert|--access-file"},
		{env: "POLYSTALKD_HTTP_TOKENS_FILE=" + broken, says: "POLYSTALKD_HTTP_TOKENS_FILE|polystalk access convert"},
		{args: "--http 127.0.0.1:0 --http-anonymous admin", says: `--http-anonymous|"admin"|none, read or operate`},
		{args: "--http 127.0.0.1:0 --http-host http://a", says: "--http-host|is not a host name"},
		{args: "--http 127.0.0.1:0 --http-origin ops.example", says: "--http-origin|https://ops.example.com"},
		{args: "--http 127.0.0.1:0 --http-metrics-match mail[", says: "--http-metrics-match|mail-*"},
		{args: "--http 127.0.0.1:0 --http-metrics-tubes 10001", says: "--http-metrics-tubes|/metrics/tubes"},
		{args: "--http 127.0.0.1:0 --http-history-tubes 1001", says: "--http-history-tubes|0 to 1000|/metrics/tubes"},
		{args: "--http 127.0.0.1:0 --http-bodies some", says: "--http-bodies|full, preview or none"},
		{args: "--http 127.0.0.1:0 --http-trusted-proxy proxy", says: "--http-trusted-proxy|10.0.0.0/24"},
		{args: "--http 127.0.0.1:0 --http-prefix queue", says: `--http-prefix|"queue"|/queue`},
		{args: "--http 127.0.0.1:0 --http-peer ops.example", says: `--http-peer|"ops.example"|mail=https://ops.example.com/mail/`},
		{args: "--http 127.0.0.1:0 --http-peer a=javascript:alert(1)", says: "--http-peer|mail=https://ops.example.com/mail/"},
		{args: "--http 127.0.0.1:0 --http-console-dir " + dir, says: "--http-console-dir|has no index.html|router/http/console"},
		{args: "--http 127.0.0.1:0 --http-console-dir " + dir + "/none", says: "--http-console-dir|no such file|router/http/console"},
		{args: "--http 127.0.0.1:0 --http-tls-cert " + broken, says: "--http-tls-cert|--http-tls-key|both"},
		{args: "--http 127.0.0.1:0 --http-tls-cert " + broken + " --http-tls-key " + broken, says: "--http-tls-cert|PEM"},
		{args: "--gearman-max-body 64M", says: `--gearman-max-body: bad value "64M"`},
	} {
		r.code, r.ours = fault.Usage, true
		if !strings.Contains(r.args, "--http ") {
			r.args = "--http 127.0.0.1:0 " + r.args
		}
		r.args = "-l 127.0.0.1 -p 0 " + r.args
		rows = append(rows, r)
	}
	return rows
}

func TestRefusalsNameFlagValueAndRemedy(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	for _, r := range refusals(t) {
		r.refuses(t, "polystalkd")
	}
}

func TestExitCodesOfTheInstalledReference(t *testing.T) {
	reference, err := exec.LookPath("beanstalkd")
	if err != nil {
		t.Skip("beanstalkd is not installed")
	}
	for _, r := range refusals(t) {
		if !r.ours {
			wants(t, daemon.RunToEnd(t, reference, daemon.CleanEnv(), list(r.args)...), r.code)
		}
	}
}

// TestCheckArgsFindsFaults: all faults of a start, except those that only opening shows.
func TestCheckArgsFindsFaults(t *testing.T) {
	shows := map[string]bool{ // by their names in refusals
		"port taken": true, "unknown host": true, "not our address": true, "one address of two": true, "unix path too long": true,
		"unix path a directory": true, "unix path a file": true, "unix path below nothing": true, "variable with a bad address": true,
		"journal in use": true, "journal damaged": true, "variable with a directory": true,
	}
	for _, r := range refusals(t) {
		if !shows[r.name] {
			r.refuses(t, "polystalkd", "--check-args")
		} else if got := run(t, list(r.env), append([]string{"--check-args"}, list(r.args)...)...); got != (daemon.Outcome{}) {
			t.Errorf("%s: %+v", r.name, got)
		}
	}
	wants(t, run(t, nil, "--check-args", "-b", confFile(t, "")), fault.Journal, "not a directory")
}

// TestChecksChangeNothing: with a used port, a locked directory and missing files, the arguments
// are good, and nothing changes. Warnings are not faults.
func TestChecksChangeNothing(t *testing.T) {
	port, dir := takenPort(t), t.TempDir()
	for _, args := range []string{
		"--check-args -l 127.0.0.1 -p " + port + " -l unix:" + dir + "/s -b " + dir + " -u root --gearman-listen 127.0.0.1:" + port,
		"gearmand --check-args -d -P " + dir + "/pid -l " + dir + "/log -t 4 --hashtable-buckets 991",
		"--check-config -l localhost -p 0", "gearmand --config-file /dev/null -L localhost --check-config",
	} {
		if got := run(t, nil, list(args)...); got != (daemon.Outcome{}) {
			t.Errorf("%s: %+v", args, got)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("a check leaves %v, %v", left, err)
	}
	got := run(t, []string{"POLYSTALKD_LISTENS=x"}, "--check-args", "-c", "-z", "2000000000")
	wants(t, got, 0, "POLYSTALKD_LISTENS")
	if got.Stdout != "" || strings.Count(got.Stderr, "polystalkd: warning: ") != 3 {
		t.Errorf("%+v", got)
	}
}

func TestGearmandRefusals(t *testing.T) {
	dir, port := t.TempDir(), takenPort(t)
	for _, r := range []refusal{
		{args: "--nosuch", says: "--nosuch|polystalkd gearmand --help"},
		{args: "--verb INFO", says: "--verb|--help"},
		{args: "-v", says: "-v|--verbose LEVEL|-V"},
		{args: "extra", says: `"extra"|--help`},
		{args: "gearmand", says: `"gearmand"`},
		{args: "-p", says: "-p|PORT"},
		{args: "-p abc", says: `flag -p|"abc"|65535|-p 4730`},
		{args: "-p 99999", says: `flag -p|"99999"|65535`},
		{env: "GEARMAND_PORT=abc", says: `variable GEARMAND_PORT|"abc"|65535`},
		{args: "-L 127.0.0.1 -p " + port, says: "-p|" + port + "|-L|127.0.0.1|in use|another port"},
		{args: "-L 127.0.0.1", env: "GEARMAND_PORT=" + port, says: "variable GEARMAND_PORT|" + port + "|in use"},
		{args: "-L 192.0.2.1", says: `-L|"192.0.2.1"|-L 0.0.0.0`},
		{args: "-L no-such-host.invalid", says: `-L|"no-such-host.invalid"|resolves`},
		{args: "-L 127.0.0.1:4730", says: `-L|"127.0.0.1:4730"|-L 127.0.0.1 -p 4730`},
		{args: "--listen=", says: "-L|empty|a name or an IP address"},
		{args: "-L 127.0.0.1 -p0 --beanstalk-listen 127.0.0.1", says: `--beanstalk-listen|"127.0.0.1"|127.0.0.1:11300`},
		{args: "-L 127.0.0.1 -p0 --beanstalk-listen 127.0.0.1:" + port, says: "--beanstalk-listen|" + port + "|in use"},
		{args: "-L 127.0.0.1 -p0 --beanstalk-listen unix:", says: "--beanstalk-listen|path"},
		{args: "-j x", says: `-j|"x"|number`},
		{args: "-w -1", says: "-w|-1|0 (all)"},
		{args: "--job-handle-prefix " + strings.Repeat("p", 43), says: "--job-handle-prefix|42 bytes"},
		{args: "-b 0", says: `-b|"0"|1 or more`},
		{args: "-b x", says: `-b|"x"|-b 128`},
		{args: "-f many", says: `-f|"many"|64`},
		{args: "-f 4294967296", says: "-f|4294967296|64"},
		{args: "-f 2147483647 -L 127.0.0.1 -p 0", says: "-f|2147483647|at most"},
		{args: "--keepalive-idle 0", says: `--keepalive-idle|"0"|-1`},
		{args: "--keepalive-count 128", says: `--keepalive-count|"128"|127`},
		{args: "--keepalive-interval soon", says: `--keepalive-interval|"soon"`},
		{args: "--hashtable-buckets 0", says: `--hashtable-buckets|"0"|above 0`},
		{args: "-t many", says: `-t|"many"|number`},
		{args: "--verbose LOUD", says: `--verbose|"LOUD"|DEBUG`},
		{args: "--gearman-max-body 0", says: `--gearman-max-body|"0"|1073741824`},
		{args: "--gearman-max-unread 0", says: `--gearman-max-unread|"0"|1073741824`},
		{args: "--gearman-max-body 1073741825", says: "--gearman-max-body|1073741824"},
		{args: "--journal-fsync-ms soon", says: `--journal-fsync-ms|"soon"|--journal-fsync-ms 50`},
		{args: "--journal-size big", says: `--journal-size|"big"|bytes`},
		{args: "-L 127.0.0.1 -p0 --journal " + dir + "/no", says: "--journal|" + dir + "/no|no such file"},
		{args: "-L 127.0.0.1 -p0 --journal=", says: "--journal|empty|leave --journal out"},
		{args: "-L 127.0.0.1 -p0 -u no-such-user", says: `-u|"no-such-user"|account`},
		{args: "-L 127.0.0.1 -p0 -l " + dir + "/no/log", says: "-l|" + dir + "/no/log|stderr or none"},
		{args: "-L 127.0.0.1 -p0 -l " + dir, says: "-l|" + dir + "|directory"},
		{args: "-L 127.0.0.1 -p0 -l none -P " + dir + "/no/pid", says: "-P|" + dir + "/no/pid"},

		{args: "-q libsqlite3", says: `-q|"libsqlite3"|--journal DIR`},
		{args: "--queue-type=MySQL", says: `-q|"MySQL"|--journal DIR`},
		{args: "--libsqlite3-db=/x", says: "--libsqlite3-db|--journal DIR"},
		{args: "--libpq-conninfo x", says: "--libpq-conninfo|--journal DIR"},
		{args: "--mysql-host x", says: "--mysql-host|--journal DIR"},
		{args: "--redis-server x", says: "--redis-server|--journal DIR"},
		{args: "--libmemcached-servers x", says: "--libmemcached-servers|--journal DIR"},
		{args: "--libdrizzle-db x", says: "--libdrizzle-db|--journal DIR"},
		{args: "--libtokyocabinet-file x", says: "--libtokyocabinet-file|--journal DIR"},
		{args: "--ssl", says: "--ssl|--ssl-certificate"},
		{args: "--ssl-key x", says: "--ssl-key|--ssl-certificate"},
		{args: "-r http", says: "-r|HTTP|Gearman client"},
		{args: "-r ftp", says: `-r|"ftp"|leave it out`},
		{args: "--http-port=8080", says: "--http-port|Gearman client"},

		{args: "--config-file " + dir + "/no", says: "--config-file|" + dir + "/no|no such file"},
		{args: "--config-file " + confFile(t, "--nosuch"), says: "file |--nosuch"},
		{args: "--config-file " + confFile(t, "extra"), says: `file |"extra"`},
		{args: "--config-file " + confFile(t, "--ssl"), says: "flag --ssl in |--ssl-certificate"},
		{args: "--config-file " + confFile(t, "--port=abc"), says: `flag -p in |"abc"`},
		{args: "--config-file " + confFile(t, "-j x"), says: `file |-j|"x"`},
	} {
		r.code = fault.Gearmand
		r.refuses(t, "polystalkd gearmand", "gearmand")
	}
}

func TestVersionAndHelpGoToStdout(t *testing.T) {
	normal := list("-b -f -F -l -p -u -z -s -v -V -h --loops --shards --max-connections --connection-memory --log-level --log-format")
	gearmands := list(`-p -L -j -w -R -q -l -P -d -b -f -u -t -V -h --job-handle-prefix --exceptions --syslog --verbose --config-file
		--keepalive --keepalive-idle --hashtable-buckets --journal --beanstalk-listen --gearman-max-body --loops`)
	for _, tt := range []struct {
		lines, want string
		flags       []string // that the text explains
	}{
		{"-v|--version|-vx|-p0 -v|version|-p0 version", "polystalkd " + program.Version + " (speaks beanstalkd 1.13)", nil},
		{"gearmand --version|gearmand -V|gearmand -p 0 -V|gearmand version", "polystalkd " + program.Version + " (speaks Gearman as gearmand 2.0.0", nil},
		{"-h|--help|-Vh|help|help -V", "", append(normal, "--verbose  ")},
		{"gearmand --help|gearmand -h|gearmand -p 0 --help|gearmand --check-args -h|gearmand help|help gearmand", "", gearmands},
	} {
		for line := range strings.SplitSeq(tt.lines, "|") {
			got := run(t, nil, list(line)...)
			if got.Code != 0 || got.Stderr != "" || !strings.HasPrefix(got.Stdout, tt.want) {
				t.Errorf("%s: %+v", line, got)
			}
			for _, flag := range tt.flags {
				if !strings.Contains(got.Stdout, " "+flag+",") && !strings.Contains(got.Stdout, " "+flag+" ") {
					t.Errorf("%s does not explain %s", line, flag)
				}
			}
		}
	}
	for _, line := range []string{"version help", "versions", "help gearman", "gearmand help me", "''"} {
		if got := run(t, nil, list(line)...); got.Code == 0 || got.Stdout != "" || !strings.Contains(got.Stderr, "unknown argument") {
			t.Errorf("%s: %+v", line, got)
		}
	}
}
