package process

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/gearman"
)

// start starts polystalkd with a file, which has its port and the log's format; notify is
// where it tells its state.
func start(t *testing.T, text string, args ...string) (s *daemon.Server, path string, notify *net.UnixConn) {
	t.Helper()
	path = confFile(t, text)
	notify = daemon.NotifySocket(t)
	cmd := exec.Command(daemon.Binary, append([]string{"--log-format", "json", "-l", "127.0.0.1", "-p", "0", "--config", path}, args...)...)
	cmd.Env = daemon.CleanEnv("NOTIFY_SOCKET=" + notify.LocalAddr().String())
	s = daemon.Await(t, cmd)
	if got := daemon.ReadState(t, notify); got != "READY=1" {
		t.Fatalf("first state %q", got)
	}
	return s, path, notify
}

// reload has the server read its files again, and waits until it has.
func reload(t *testing.T, s *daemon.Server, notify *net.UnixConn) {
	t.Helper()
	s.Signal(syscall.SIGHUP)
	began := daemon.ReadState(t, notify)
	stamp, ok := strings.CutPrefix(began, "RELOADING=1\nMONOTONIC_USEC=")
	if n, err := strconv.ParseInt(strings.TrimSpace(stamp), 10, 64); !ok || err != nil || n <= 0 {
		t.Errorf("state %q, want RELOADING=1 and the time", began)
	}
	if got := daemon.ReadState(t, notify); got != "READY=1" {
		t.Errorf("state %q after a reload", got)
	}
}

// logs waits until the log holds a text n times.
func logs(t *testing.T, s *daemon.Server, text string, n int) {
	t.Helper()
	for end := time.Now().Add(daemon.Hang); strings.Count(s.LogText(), text) < n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("the log does not hold %s %d times", text, n)
			return
		}
	}
}

// TestBrokenFileChangesNothing: also not what is right in it. The log has file, line and
// remedy of everything.
func TestBrokenFileChangesNothing(t *testing.T) {
	s, path, notify := start(t, "max-job-size = 1000\n")
	conn := daemon.Dial(t, s.Listen[0])
	if got := daemon.Ask(t, conn, "nonsense\r\n"); got != "UNKNOWN_COMMAND" {
		t.Fatal(got)
	}
	write(t, path, "max-job-size = 5\nlog-level = \"error\"\nloops = true\n")
	write(t, path+".d/a.toml", "shards = 6\nprot = 1\n")
	reload(t, s, notify)
	if s.WaitLog("nothing was changed: the server goes on with what it had")["errors"] != 3.0 {
		t.Error("there are not three errors")
	}
	for _, want := range []string{path + ":3: loops has a value of the wrong type: give a whole number", `"line":"loops = true"`, path + ".d/a.toml:1: 6 is not a power of two", path + ".d/a.toml:2: unknown key", "write port, or leave it out"} {
		logs(t, s, want, 1)
	}
	if got := daemon.Stats(t, s.Listen[0])["max-job-size"]; got != "1000" {
		t.Errorf("jobs of %s bytes", got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	reload(t, s, notify)
	logs(t, s, "no such file", 1)
	// The connection that was there is served on, and a file that is right again is read.
	write(t, path, "max-job-size = 7\n")
	write(t, path+".d/a.toml", "")
	reload(t, s, notify)
	if got := daemon.Ask(t, conn, "put 0 0 9 8\r\n12345678\r\n"); got != "JOB_TOO_BIG" {
		t.Errorf("afterwards %q", got)
	}
}

// TestFilesThatTheUserMayNotReadChangeNothing: a server that starts as root and becomes
// another user reads the files as that user later.
func TestFilesThatTheUserMayNotReadChangeNothing(t *testing.T) {
	path := confFile(t, "max-job-size = 10\n")
	args := []string{"--config", path}
	if os.Geteuid() == 0 {
		args = append(args, "-u", "nobody")
	}
	s := daemon.Serve(t, args...)
	write(t, path, "max-job-size = 20\n")
	dir := path + ".d"
	write(t, filepath.Join(dir, "a.toml"), "")
	for _, name := range []string{path, dir} {
		if err := os.Chmod(name, 0); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) }) // or it cannot be removed
	s.Signal(syscall.SIGHUP)
	logs(t, s, "file "+path+": it cannot be read (permission denied): give a file that this user may read", 1)
	logs(t, s, "file "+dir+": its files cannot be listed (permission denied): let this user read the directory", 1)
	logs(t, s, "nothing was changed", 1)
	if got := daemon.Stats(t, s.Listen[0])["max-job-size"]; got != "10" {
		t.Errorf("jobs of %s bytes", got)
	}
}

// TestReloadAppliesWhatItCan, and says of the rest that it needs a restart.
func TestReloadAppliesWhatItCan(t *testing.T) {
	s, path, notify := start(t, "", "--gearman-wakeup", "3")
	write(t, path, "max-job-size = 5\nlog-level = \"warn\"\nshards = 1024\nbinlog-dir = \"/x\"\nport = 1\ngearman-wakeup = 9\n")
	reload(t, s, notify)
	if got := daemon.Stats(t, s.Listen[0])["max-job-size"]; got != "5" {
		t.Errorf("jobs of %s bytes", got)
	}
	for _, want := range []string{`"msg":"setting needs a restart","key":"shards"`, `"wanted":"1024","origin":"file ` + path + `:3"`, `"key":"binlog-dir","running":"not set","wanted":"/x"`} {
		logs(t, s, want, 1)
	}
	log := s.LogText()
	if strings.Count(log, "needs a restart") != 2 || strings.Contains(log, `"setting applied"`) {
		t.Error("the log says more, or at a level that was left")
	}
	// What needed a restart needs it still; what was applied is not told again. The values
	// that are gone have their defaults again.
	write(t, path, "shards = 1024\nlog-level = \"info\"\n")
	reload(t, s, notify)
	for _, want := range []string{`"key":"max-job-size","from":"5","to":"65535","origin":"default"`, `"msg":"the configuration was read again"`, `"applied":2,"need-restart":1`} {
		logs(t, s, want, 1)
	}
	if got := daemon.Stats(t, s.Listen[0])["max-job-size"]; got != "65535" {
		t.Errorf("jobs of %s bytes", got)
	}
}

// TestOriginsAreThoseOfTheFileAsItIs: the origin of a value that is the same is its new line.
// A setting that waits for a restart keeps the origin of the value in effect.
func TestOriginsAreThoseOfTheFileAsItIs(t *testing.T) {
	s, path, notify := start(t, "max-job-size = 10\nshards = 4\n", "--http", "127.0.0.1:0")
	origins := func() map[string]string {
		t.Helper()
		a, err := http.Get("http://" + s.WaitLog("serving HTTP")["listen"].(string) + "/api/v1/config")
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		var in struct {
			Settings []struct{ Name, Origin string } `json:"settings"`
		}
		if err := json.NewDecoder(a.Body).Decode(&in); err != nil {
			t.Fatal(err)
		}
		all := make(map[string]string)
		for _, v := range in.Settings {
			all[v.Name] = v.Origin
		}
		return all
	}
	write(t, path, "\n\nmax-job-size = 10\nshards = 8\n")
	reload(t, s, notify)
	want := map[string]string{"max-job-size": "file " + path + ":3", "shards": "file " + path + ":2", "listen": "flag -l"}
	for name, origin := range want {
		if got := origins()[name]; got != origin {
			t.Errorf("%s is said to be from %q, want %q", name, got, origin)
		}
	}
}

// TestNothingHasChanged: what the server has made of the machine meanwhile is no change.
func TestNothingHasChanged(t *testing.T) {
	s, _, notify := start(t, "max-job-size = 10\n", "-b", t.TempDir())
	for range 2 {
		reload(t, s, notify)
	}
	logs(t, s, `"applied":0,"need-restart":0`, 2)
}

// TestReloadInPlaceOfGearmand: the log is opened again, and the file is read again, wherever
// the daemon is by then.
func TestReloadInPlaceOfGearmand(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "g.toml"), "gearman-max-body = 1000\n")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	l.Close()
	cmd := exec.Command(daemon.Binary, "gearmand", "-d", "-P", "pid", "-l", "log", "-L", "127.0.0.1", "-p", port, "--config-file", os.DevNull, "--config", "g.toml")
	cmd.Dir, cmd.Env = dir, daemon.CleanEnv()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(pid, syscall.SIGKILL)
	write(t, filepath.Join(dir, "g.toml"), "gearman-max-body = 5\nverbose = \"DEBUG\"\n")
	if err := os.Rename(filepath.Join(dir, "log"), filepath.Join(dir, "log.1")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(daemon.Hang); ; time.Sleep(5 * time.Millisecond) {
		text, _ := os.ReadFile(filepath.Join(dir, "log"))
		if strings.Contains(string(text), "the configuration was read again") {
			if strings.Contains(string(text), "needs a restart") || !strings.Contains(string(text), "applied=2") {
				t.Errorf("log: %s", text)
			}
			break
		}
		if time.Now().After(end) {
			t.Fatalf("log: %s", text)
		}
	}
	daemon.Says(t, daemon.Dial(t, address), "verbose\n", "OK DEBUG\n")
}

// TestReloadsLoseNoConnection: two hundred of them, each with other settings, while clients
// of both protocols put, reserve and delete.
func TestReloadsLoseNoConnection(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	const clients, reloads = 20, 200
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gear := port.Addr().String()
	port.Close()
	s, path, notify := start(t, "", "--gearman-listen", gear, "--gearman-prefix", "H:x", "--loops", "2", "--shards", "4")
	var stop atomic.Bool
	var done atomic.Int64
	var all sync.WaitGroup
	for i := range clients {
		c := s.Client()
		tube := fmt.Sprintf("t%d", i)
		daemon.Expect(t, c, "use "+tube+"\r\n", "USING "+tube+"\r\n")
		daemon.Expect(t, c, "watch "+tube+"\r\n", "WATCHING 2\r\n")
		all.Go(func() {
			for !stop.Load() {
				reply, err := c.Ask("put 0 0 99 5\r\nhello\r\n")
				id, ok := strings.CutPrefix(string(reply), "INSERTED ")
				if !ok || err != nil {
					t.Errorf("put: %q %v", reply, err)
					return
				}
				if reply, err = c.Ask("reserve\r\n"); err != nil || string(reply) != "RESERVED "+strings.TrimSpace(id)+" 5\r\nhello\r\n" {
					t.Errorf("reserve: %q %v", reply, err)
					return
				}
				if reply, err = c.Ask("delete " + id); err != nil || string(reply) != "DELETED\r\n" {
					t.Errorf("delete: %q %v", reply, err)
					return
				}
				done.Add(1)
			}
		})
		g := daemon.DialGearman(t, gear)
		g.Ask(t, daemon.Request(gearman.EchoReq, "hello"), gearman.EchoRes, "hello") // it is let in before max-connections is less
		all.Go(func() {
			for !stop.Load() {
				if err := g.Send([]byte(daemon.Request(gearman.EchoReq, "hello"))); err != nil {
					t.Errorf("echo: %v", err)
					return
				}
				if kind, args, err := g.Reply(); err != nil || kind != gearman.EchoRes || string(args[0]) != "hello" {
					t.Errorf("echo: %v %q %v", kind, args, err)
					return
				}
				done.Add(1)
			}
		})
	}
	for n := range reloads {
		text := fmt.Sprintf("max-job-size = %d\nmax-connections = %d\nconnection-memory = %d\ngearman-max-body = %d\ngearman-retries = %d\ngearman-wakeup = %d\ngearman-max-unread = %d\n",
			5+n%7, 1+n%3*100, 8<<20+n<<20, 5+n%11, n%4, n%3, 100+n)
		if n%5 == 4 {
			text += "broken"
		}
		write(t, path, text)
		reload(t, s, notify)
	}
	stop.Store(true)
	all.Wait()
	if n := done.Load(); n < reloads {
		t.Errorf("the clients did only %d rounds beside %d reloads", n, reloads)
	}
	s.Signal(syscall.SIGTERM)
	s.EndsWith(0)
}
