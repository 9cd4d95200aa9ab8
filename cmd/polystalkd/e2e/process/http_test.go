package process

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/cmd/polystalkd/fault"
	"polystalk/codec/wiretest/certtest"
)

// TestOptionsOfHTTPWithoutHTTP: options that protect HTTP cause a warning when HTTP is not served.
// A check still reads their files, since the service manager may pass sockets. The service
// manager's credentials cause no warning.
func TestOptionsOfHTTPWithoutHTTP(t *testing.T) {
	dir := t.TempDir()
	key := filepath.Join(dir, "http-tls-key")
	write(t, key, "nonsense\n")
	s := daemon.Serve(t, "--http-host", "ops.example", "--http-anonymous", "read")
	for _, flag := range []string{"--http-host", "--http-anonymous"} {
		logged(t, s, "flag "+flag+" has no effect, since HTTP is not served: give --http with an address, or leave it out")
	}
	write(t, filepath.Join(dir, "http-tls-cert"), "nonsense\n")
	if s := serve(t, []string{"CREDENTIALS_DIRECTORY=" + dir}); s.LogHas("no effect") || s.LogHas("serving HTTP") {
		t.Errorf("a credential is warned of, or HTTP is served: %s", s.LogText())
	}
	for _, check := range []string{"--check-config", "--check-args"} {
		wants(t, run(t, nil, check, "--http-tls-cert", key, "--http-tls-key", key), fault.Usage, "--http-tls-cert", "PEM")
	}
}

// TestHTTPIsServedOnTCPAndUnixSockets, even before the journal is read, on both command lines.
func TestHTTPIsServedOnTCPAndUnixSockets(t *testing.T) {
	path := filepath.Join(daemon.ShortDir(t), "h")
	unix := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	for _, line := range [][]string{{"-l", "127.0.0.1", "-p", "0", "-b", t.TempDir()}, {"gearmand", "-L", "127.0.0.1", "-p", "0"}} {
		s := daemon.Await(t, daemon.Command(append(line, "--http", "127.0.0.1:0", "--http", "unix:"+path)...))
		if status, body := getHTTP(t, "http://"+httpOf(t, s)+"/readyz?verbose", ""); status != 200 || !strings.Contains(body, "[ok] started") {
			t.Errorf("/readyz: %d %q", status, body)
		}
		if resp, body := askHTTP(t, unix, "GET", "http://localhost/metrics", "", ""); resp.StatusCode != 200 || !strings.Contains(body, "polystalk_ready 1\n") {
			t.Errorf("/metrics by the unix socket: %d %q", resp.StatusCode, body)
		}
		if strings.Index(s.LogText(), `"msg":"serving HTTP"`) > strings.Index(s.LogText(), `"msg":"serving"`) {
			t.Error("clients are served before HTTP is")
		}
		ends(t, s, syscall.SIGTERM)
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("the unix socket is left: %v", err)
		}
	}
	s := daemon.Serve(t, "--http", "0.0.0.0:0", "--http-anonymous", "none")
	_, port, _ := net.SplitHostPort(httpOf(t, s))
	if status, _ := getHTTP(t, "http://127.0.0.1:"+port+"/metrics", ""); status != 401 {
		t.Errorf("/metrics of one that is open to all, for nobody: %d", status)
	}
}

// TestFilesOfHTTPAreReadAgain: the access file and certificates are read with the configuration, all or
// nothing, also without a file of it. Here they are credentials of the service manager.
func TestFilesOfHTTPAreReadAgain(t *testing.T) {
	dir := t.TempDir()
	cert, key, tokens := filepath.Join(dir, "http-tls-cert"), filepath.Join(dir, "http-tls-key"), filepath.Join(dir, "access-file")
	ca := certtest.New(t)
	for _, configured := range []bool{true, false} {
		ca.Renew(cert, key, certtest.ForNode("first"))
		write(t, tokens, accessText("admin", one))
		must(t, os.Chmod(tokens, 0o644))
		path := confFile(t, "max-job-size = 10\n")
		args := []string{"--http", "127.0.0.1:0"}
		if configured {
			args = append(args, "--config", path)
		}
		s, notify := notified(t, []string{"CREDENTIALS_DIRECTORY=" + dir}, args...)
		logged(t, s, "other users of this machine may read the access file, or may write it: chmod 0640")
		url := "https://" + httpOf(t, s) + "/api/v1/config"
		expect := func(name, token string, status int) {
			t.Helper()
			a, _ := askHTTP(t, &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, "GET", url, token, "")
			if got := a.TLS.PeerCertificates[0].DNSNames[0]; got != name || a.StatusCode != status {
				t.Errorf("configured %v, token %s: certificate %s, status %d; want %s, %d", configured, token, got, a.StatusCode, name, status)
			}
		}
		expect("first", one, 200)
		expect("first", "", 401) // although it is a loopback address
		write(t, tokens, accessText("admin", two))
		if configured { // nothing holds of what is right beside a broken key
			write(t, key, "broken")
			write(t, path, "max-job-size = 20\n")
			reload(t, s, notify)
			logs(t, s, "credential http-tls-cert", "nothing was changed")
			expect("first", one, 200)
			if _, body := askHTTP(t, &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, "GET", strings.TrimSuffix(url, "config")+"server", one, ""); !strings.Contains(body, `"max_job_size_bytes":10,`) {
				t.Errorf("the largest job has changed: %s", body)
			}
		}
		ca.Renew(cert, key, certtest.ForNode("second"))
		reload(t, s, notify)
		logs(t, s, "the access file was read again", "the certificate was read again")
		expect("second", two, 200)
		expect("second", one, 401)
		if !configured {
			write(t, key, "broken")
			write(t, tokens, "broken\n")
			reload(t, s, notify)
			logs(t, s, "cannot be used", tokens+":1:", "nothing was changed")
			expect("second", two, 200)
		}
		if s.LogHas("PRIVATE") {
			t.Error("the log has the key")
		}
		ends(t, s, syscall.SIGTERM)
	}
}

// TestConfigShowsWhatIsInEffect: each setting once, with its origin, and no secret.
func TestConfigShowsWhatIsInEffect(t *testing.T) {
	file := filepath.Join(t.TempDir(), "access.toml")
	write(t, file, accessText("read", secret))
	s := serve(t, []string{"POLYSTALKD_SHARDS=8"}, "-z", "1000", "--http", "127.0.0.1:0", "--access-file", file)
	status, body := getHTTP(t, "http://"+httpOf(t, s)+"/api/v1/config", secret)
	var got struct {
		Settings []struct{ Name, Value, Origin string }
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil || status != 200 {
		t.Fatalf("%d %v %s", status, err, body)
	}
	values := make(map[string]string)
	for _, v := range got.Settings {
		if _, twice := values[v.Name]; twice {
			t.Errorf("%s is there twice", v.Name)
		}
		values[v.Name] = v.Value + " by " + v.Origin
	}
	for name, want := range map[string]string{
		"max-job-size": "1000 by flag -z", "shards": "8 by variable POLYSTALKD_SHARDS", "log-level": "info by default",
		"listen": "127.0.0.1 by flag -l", "access-file": file + " by flag --access-file", "binlog-size": "10485760 by default",
		"fsync-ms": "0 by default", "gearman-max-body": "67108864 by default",
	} {
		if values[name] != want {
			t.Errorf("%s is %q, want %q", name, values[name], want)
		}
	}
	if strings.Contains(body, fmt.Sprintf("%x", sha256.Sum256([]byte(secret)))) || len(values) < 30 {
		t.Errorf("%d settings: %s", len(values), body)
	}
}

// TestReloadByHTTP: the answer has all faults with file and line, and a fault changes nothing. The
// log level changes by HTTP too.
func TestReloadByHTTP(t *testing.T) {
	dir := t.TempDir()
	tokens, conf := filepath.Join(dir, "access.toml"), filepath.Join(dir, "conf.toml")
	const single = "look = [\"*\"]\nmanage = [\"*\"]\nserver = \"admin\"" // without bodies
	write(t, tokens, strings.Replace(accessText("admin", secret), `role = "admin"`, single, 1))
	write(t, conf, "max-job-size = 100\n")
	s := daemon.Serve(t, "--config", conf, "--http", "127.0.0.1:0", "--access-file", tokens)
	url := "http://" + httpOf(t, s)
	ask := func(method, path, send string, want int, holds ...string) {
		t.Helper()
		resp, body := askHTTP(t, new(http.Transport), method, url+path, secret, send)
		for _, h := range holds {
			if !strings.Contains(body, h) {
				t.Errorf("%s: the answer has no %s: %s", path, h, body)
			}
		}
		if resp.StatusCode != want {
			t.Errorf("%s: status %d, want %d: %s", path, resp.StatusCode, want, body)
		}
	}
	reload := func(text string, want int, holds ...string) {
		t.Helper()
		write(t, conf, text)
		ask("POST", "/api/v1/reload", "", want, holds...)
	}
	reload("max-job-size = 200\nshards = 16\nhttp-host = [\"ops.example\"]\n", 200,
		`{"name":"max-job-size","from":"100","to":"200"`, `"restart":[{"name":"shards"`, `"name":"http-host"`)
	ask("GET", "/metrics", "", 200, "\npolystalk_metrics_tubes_omitted 0\n")
	reload("max-job-size = 200\nhttp-metrics-tubes = 0\nhttp-history-tubes = 0\nhttp-bodies = \"none\"\n", 200,
		`{"name":"http-metrics-tubes","from":"200","to":"0"`, `{"name":"http-bodies","from":"full","to":"none"`)
	ask("GET", "/metrics", "", 200, "\npolystalk_metrics_tubes_omitted 1\n")
	ask("GET", "/api/v1/history", "", 404, "--http-history-tubes")
	ask("GET", "/api/v1/session", "", 200, `"bodies":"none"`)
	reload("max-job-size = 300\nhttp-metrics-tubes = 7\nhttp-metrics-match = [\"mail[\"]\n", 422, conf+":3", "http-metrics-match")
	ask("GET", "/metrics", "", 200, "\npolystalk_metrics_tubes_omitted 1\n")
	reload("max-job-size = 300\nshard = 16\n", 422, "/problems/bad-configuration", conf+":2", "shard")
	ask("GET", "/api/v1/server", "", 200, `"max_job_size_bytes":200`)

	ask("PUT", "/api/v1/log-level", `{"level":"error"}`, 200)
	ends(t, s, syscall.SIGTERM)
	if s.LogHas("shutting down") {
		t.Error("it logs at the level info")
	}
}
