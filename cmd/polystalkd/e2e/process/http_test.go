package process

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/cmd/polystalkd/fault"
)

// httpOf is where a server says that it serves HTTP.
func httpOf(t *testing.T, s *daemon.Server) string {
	t.Helper()
	line := s.WaitLog("serving HTTP")
	if line == nil {
		t.Fatalf("no line in the log says where: %s", s.LogText())
	}
	return line["listen"].(string)
}

// ask sends a request, with a token if that is not empty.
func askHTTP(t *testing.T, client *http.Client, method, url, token string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// oneShot is a client that keeps no connection.
func oneShot() *http.Client {
	return &http.Client{Timeout: daemon.Hang, Transport: &http.Transport{DisableKeepAlives: true}}
}

func TestHTTPIsOffUnlessGiven(t *testing.T) {
	s := daemon.Serve(t)
	if s.LogHas("serving HTTP") {
		t.Error("it is served")
	}
}

// TestOptionsOfHTTPWithoutHTTP: options that protect HTTP warn when HTTP is not served. A
// check reads their files all the same, since the service manager may pass the sockets. The
// service manager's credentials cause no warning.
func TestOptionsOfHTTPWithoutHTTP(t *testing.T) {
	dir := t.TempDir()
	tokens := filepath.Join(dir, "http-tokens")
	if err := os.WriteFile(tokens, []byte("nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := daemon.Serve(t, "--http-tokens-file", tokens, "--http-anonymous", "read")
	for _, flag := range []string{"--http-tokens-file", "--http-anonymous"} {
		if s.WaitLog("flag "+flag+" has no effect, since HTTP is not served: give --http with an address, or leave it out") == nil {
			t.Errorf("no warning that %s has no effect", flag)
		}
	}
	cmd := exec.Command(daemon.Binary, "--log-format", "json", "-l", "127.0.0.1", "-p", "0")
	cmd.Env = daemon.CleanEnv("CREDENTIALS_DIRECTORY=" + dir)
	if s := daemon.Await(t, cmd); strings.Contains(s.LogText(), "no effect") {
		t.Errorf("a credential is warned of: %s", s.LogText())
	}
	for _, check := range []string{"--check-config", "--check-args"} {
		got := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(), check, "--http-tokens-file", tokens)
		if got.Code != fault.Usage || !strings.Contains(got.Stderr, tokens+":1:") {
			t.Errorf("%s: %+v", check, got)
		}
	}
}

func TestHTTPIsServedOnTCPAndUnixSockets(t *testing.T) {
	path := filepath.Join(daemon.ShortDir(t), "h")
	for _, in := range []string{"", "gearmand"} {
		cmd := exec.Command(daemon.Binary, "--log-format", "json", "-l", "127.0.0.1", "-p", "0", "--http", "127.0.0.1:0", "--http", "unix:"+path)
		if in != "" {
			cmd = exec.Command(daemon.Binary, in, "--log-format", "json", "-L", "127.0.0.1", "-p", "0", "--http", "127.0.0.1:0", "--http", "unix:"+path)
		}
		cmd.Env = daemon.CleanEnv()
		s := daemon.Await(t, cmd)
		client := oneShot()
		if status, body := askHTTP(t, client, "GET", "http://"+httpOf(t, s)+"/readyz", ""); status != 200 || body != "ok\n" {
			t.Errorf("/readyz: %d %q", status, body)
		}
		client.Transport = &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}}
		if status, body := askHTTP(t, client, "GET", "http://localhost/metrics", ""); status != 200 || !strings.Contains(body, "polystalk_ready 1\n") {
			t.Errorf("/metrics by the unix socket: %d %q", status, body)
		}
		s.Signal(syscall.SIGTERM)
		s.EndsWith(0)
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("the unix socket is left: %v", err)
		}
	}
}

func TestHTTPThatCannotBeServedEndsTheStart(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken")
	if err := os.WriteFile(broken, []byte("nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		want []string
	}{
		{[]string{"--http", "0.0.0.0:0"}, []string{"--http", "other machines", "--http-tokens-file"}},
		{[]string{"--http", ":0"}, []string{"other machines"}},
		{[]string{"--http", "[::]:0"}, []string{"other machines"}},
		{[]string{"--http", "192.0.2.1:80"}, []string{"other machines"}},
		{[]string{"--http", "11380"}, []string{"no address with a port", "127.0.0.1:11380"}},
		{[]string{"--http", "127.0.0.1:0", "--http-tokens-file", filepath.Join(dir, "none")}, []string{"--http-tokens-file", "cannot be read", "give a file"}},
		{[]string{"--http", "127.0.0.1:0", "--http-tokens-file", broken}, []string{broken + ":1:", "give a name, a role"}},
		{[]string{"--http", "127.0.0.1:0", "--http-anonymous", "admin"}, []string{"--http-anonymous", `"admin"`, "none, read or operate"}},
		{[]string{"--http", "127.0.0.1:0", "--http-host", "http://a"}, []string{"--http-host", "is no host name"}},
		{[]string{"--http", "127.0.0.1:0", "--http-origin", "ops.example"}, []string{"--http-origin", "https://ops.example.com"}},
		{[]string{"--http", "127.0.0.1:0", "--http-metrics-match", "mail["}, []string{"--http-metrics-match", "mail-*"}},
		{[]string{"--http", "127.0.0.1:0", "--http-metrics-tubes", "10001"}, []string{"--http-metrics-tubes", "/metrics/tubes"}},
		{[]string{"--http", "127.0.0.1:0", "--http-history-tubes", "1001"}, []string{"--http-history-tubes", "0 to 1000", "/metrics/tubes"}},
		{[]string{"--http", "127.0.0.1:0", "--http-bodies", "some"}, []string{"--http-bodies", "full, preview or none"}},
		{[]string{"--http", "127.0.0.1:0", "--http-trusted-proxy", "proxy"}, []string{"--http-trusted-proxy", "10.0.0.0/24"}},
		{[]string{"--http", "127.0.0.1:0", "--http-prefix", "queue"}, []string{"--http-prefix", `"queue"`, "/queue"}},
		{[]string{"--http", "127.0.0.1:0", "--http-peer", "ops.example"}, []string{"--http-peer", `"ops.example"`, "mail=https://ops.example.com/mail/"}},
		{[]string{"--http", "127.0.0.1:0", "--http-peer", "a=javascript:alert(1)"}, []string{"--http-peer", "mail=https://ops.example.com/mail/"}},
		{[]string{"--http", "127.0.0.1:0", "--http-console-dir", dir}, []string{"--http-console-dir", "has no index.html", "router/http/console"}},
		{[]string{"--http", "127.0.0.1:0", "--http-console-dir", filepath.Join(dir, "none")}, []string{"--http-console-dir", "no such file", "router/http/console"}},
		{[]string{"--http", "127.0.0.1:0", "--http-tls-cert", broken}, []string{"--http-tls-cert", "--http-tls-key", "both"}},
		{[]string{"--http", "127.0.0.1:0", "--http-tls-cert", broken, "--http-tls-key", broken}, []string{"--http-tls-cert", "PEM"}},
	} {
		for _, more := range [][]string{nil, {"--check-args"}} {
			cmd := exec.Command(daemon.Binary, append(append([]string{"--log-format", "json", "-l", "127.0.0.1", "-p", "0"}, tt.args...), more...)...)
			cmd.Env = daemon.CleanEnv()
			s := daemon.Launch(t, cmd)
			s.EndsWith(fault.Usage)
			for _, want := range tt.want {
				if !strings.Contains(s.LogText(), want) {
					t.Errorf("%v: stderr has no %q: %s", tt.args, want, s.LogText())
				}
			}
		}
	}
	s := daemon.Serve(t, "--http", "0.0.0.0:0", "--http-anonymous", "none")
	_, port, _ := net.SplitHostPort(httpOf(t, s))
	if status, _ := askHTTP(t, oneShot(), "GET", "http://127.0.0.1:"+port+"/metrics", ""); status != 401 {
		t.Errorf("/metrics of one that is open to all, for nobody: %d", status)
	}
}

func TestTokensAreReadAgainAtSIGHUP(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	write := func(token string) {
		t.Helper()
		if err := os.WriteFile(file, fmt.Appendf(nil, "a read sha256:%x\n", sha256.Sum256([]byte(token))), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	s := daemon.Serve(t, "--http", "127.0.0.1:0", "--http-tokens-file", file)
	if s.WaitLog("everybody on this machine may read the file of tokens: chmod o-r") == nil {
		t.Error("no warning")
	}
	url := "http://" + httpOf(t, s) + "/metrics"
	expect := func(token string, want int) {
		t.Helper()
		if status, body := askHTTP(t, oneShot(), "GET", url, token); status != want {
			t.Errorf("token %q: %d %s", token, status, body)
		}
	}
	expect("one", 200)
	expect("", 401) // although it is a loopback address
	write("two")
	s.Signal(syscall.SIGHUP)
	s.WaitLog("the tokens were read again")
	expect("one", 401)
	expect("two", 200)
	if err := os.WriteFile(file, []byte("broken\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.Signal(syscall.SIGHUP)
	if line := s.WaitLog("the tokens stay as they were"); line == nil || !strings.Contains(line["err"].(string), file+":1:") {
		t.Errorf("the log does not say what is wrong: %v", line)
	}
	expect("two", 200)
}

func TestHTTPSocketIsPassedDown(t *testing.T) {
	tcp, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	cmd := activated([]*os.File{daemon.FileOf(t, tcp)}, "-l", "127.0.0.1", "-p", "0")
	cmd.Env = append(cmd.Env, "LISTEN_FDNAMES=http")
	s := daemon.Await(t, cmd)
	if status, _ := askHTTP(t, oneShot(), "GET", "http://"+tcp.Addr().String()+"/livez", ""); status != 200 {
		t.Errorf("/livez: %d", status)
	}
	if got := daemon.Ask(t, daemon.Dial(t, s.Listen[0]), "nonsense\r\n"); got != "UNKNOWN_COMMAND" {
		t.Errorf("beanstalkd's own address: %q", got)
	}
}

// TestHTTPIsOpenBeforeTheJournalIsRead: the log has it before the line that says that
// clients are served.
func TestHTTPIsOpenBeforeTheJournalIsRead(t *testing.T) {
	s := daemon.Serve(t, "-b", t.TempDir(), "--http", "127.0.0.1:0")
	status, body := askHTTP(t, oneShot(), "GET", "http://"+httpOf(t, s)+"/readyz?verbose", "")
	if status != 200 || !strings.Contains(body, "[ok] started") {
		t.Errorf("%d %s", status, body)
	}
	var line map[string]any
	for text := range strings.Lines(s.LogText()) {
		if json.Unmarshal([]byte(text), &line) == nil && (line["msg"] == "serving" || line["msg"] == "serving HTTP") {
			break
		}
	}
	if line["msg"] != "serving HTTP" {
		t.Errorf("%q came first", line["msg"])
	}
}

// writeCertificate writes a new self-signed certificate for 127.0.0.1 with that serial
// number, and its key. It returns a pool that trusts the certificate.
func writeCertificate(t *testing.T, cert, key string, number int64) *x509.CertPool {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(number), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	write(t, cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	write(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})))
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return pool
}

func TestHTTPIsServedWithTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	pool := writeCertificate(t, cert, key, 1)
	s := daemon.Serve(t, "--http", "127.0.0.1:0", "--http-tls-cert", cert, "--http-tls-key", key)
	addr := httpOf(t, s)
	client := oneShot()
	client.Transport = &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool}}
	if status, body := askHTTP(t, client, "GET", "https://"+addr+"/readyz", ""); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := askHTTP(t, oneShot(), "GET", "http://"+addr+"/readyz", ""); status != 400 {
		t.Errorf("without TLS: %d", status)
	}
}

// TestConfigShowsWhatIsInEffect: each setting once, with where it was set, and no secret.
func TestConfigShowsWhatIsInEffect(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	digest := fmt.Sprintf("%x", sha256.Sum256([]byte("secret")))
	if err := os.WriteFile(file, []byte("a read sha256:"+digest+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(daemon.Binary, "--log-format", "json", "-l", "127.0.0.1", "-p", "0", "-z", "1000", "--http", "127.0.0.1:0", "--http-tokens-file", file)
	cmd.Env = daemon.CleanEnv("POLYSTALKD_SHARDS=8")
	s := daemon.Await(t, cmd)
	status, body := askHTTP(t, oneShot(), "GET", "http://"+httpOf(t, s)+"/api/v1/config", "secret")
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
		"listen": "127.0.0.1 by flag -l", "http-tokens-file": file + " by flag --http-tokens-file", "binlog-size": "10485760 by default",
		"fsync-ms": "0 by default", "gearman-max-body": "67108864 by default",
	} {
		if values[name] != want {
			t.Errorf("%s is %q, want %q", name, values[name], want)
		}
	}
	if strings.Contains(body, digest) || len(values) < 30 {
		t.Errorf("%d settings: %s", len(values), body)
	}
}

// TestLogLevelByHTTP: it holds at once.
func TestLogLevelByHTTP(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, fmt.Appendf(nil, "a admin sha256:%x\n", sha256.Sum256([]byte("secret"))), 0o600); err != nil {
		t.Fatal(err)
	}
	s := daemon.Serve(t, "--http", "127.0.0.1:0", "--http-tokens-file", file)
	r, err := http.NewRequest("PUT", "http://"+httpOf(t, s)+"/api/v1/log-level", strings.NewReader(`{"level":"error"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer secret")
	r.Header.Set("Content-Type", "application/json")
	resp, err := oneShot().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Fatalf("status %d", resp.StatusCode)
	}
	s.Signal(syscall.SIGTERM)
	s.EndsWith(0)
	if s.LogHas("shutting down") {
		t.Error("it logs at the level info")
	}
}

// TestReloadByHTTP: what is wrong is in the answer, with file and line, and changes nothing.
func TestReloadByHTTP(t *testing.T) {
	dir := t.TempDir()
	tokens, conf := filepath.Join(dir, "tokens"), filepath.Join(dir, "conf.toml")
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(tokens, fmt.Sprintf("a admin sha256:%x\n", sha256.Sum256([]byte("secret"))))
	write(conf, "max-job-size = 100\n")
	s := daemon.Serve(t, "--config", conf, "--http", "127.0.0.1:0", "--http-tokens-file", tokens)
	url := "http://" + httpOf(t, s)
	reload := func(want int, holds ...string) {
		t.Helper()
		status, body := askHTTP(t, oneShot(), "POST", url+"/api/v1/reload", "secret")
		for _, h := range holds {
			if !strings.Contains(body, h) {
				t.Errorf("the answer has no %s: %s", h, body)
			}
		}
		if status != want {
			t.Errorf("status %d, want %d: %s", status, want, body)
		}
	}
	write(conf, "max-job-size = 200\nshards = 16\nhttp-host = [\"ops.example\"]\n")
	reload(200, `{"name":"max-job-size","from":"100","to":"200"`, `"restart":[{"name":"shards"`, `"name":"http-host"`)
	r, err := http.NewRequest("GET", url+"/api/v1/server", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "ops.example"
	r.Header.Set("Authorization", "Bearer secret")
	resp, err := oneShot().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Errorf("the new name: status %d", resp.StatusCode)
	}
	omitted := func(want string) {
		t.Helper()
		if _, body := askHTTP(t, oneShot(), "GET", url+"/metrics", "secret"); !strings.Contains(body, "\npolystalk_metrics_tubes_omitted "+want+"\n") {
			t.Errorf("not %s tubes are left out of /metrics", want)
		}
	}
	omitted("0")
	write(conf, "max-job-size = 200\nhttp-metrics-tubes = 0\nhttp-history-tubes = 0\nhttp-bodies = \"none\"\n")
	reload(200, `{"name":"http-metrics-tubes","from":"200","to":"0"`, `{"name":"http-bodies","from":"full","to":"none"`)
	omitted("1")
	if status, body := askHTTP(t, oneShot(), "GET", url+"/api/v1/history", "secret"); status != 404 || !strings.Contains(body, "--http-history-tubes") {
		t.Errorf("the history that was ended: %d %s", status, body)
	}
	if _, body := askHTTP(t, oneShot(), "GET", url+"/api/v1/session", "secret"); !strings.Contains(body, `"bodies":"none"`) {
		t.Errorf("bodies are shown on: %s", body)
	}
	write(conf, "max-job-size = 300\nhttp-metrics-tubes = 7\nhttp-metrics-match = [\"mail[\"]\n")
	reload(422, conf+":3", "http-metrics-match")
	omitted("1")
	write(conf, "max-job-size = 300\nshard = 16\n")
	reload(422, "/problems/bad-configuration", conf+":2", "shard")
	if status, body := askHTTP(t, oneShot(), "GET", url+"/api/v1/server", "secret"); status != 200 || !strings.Contains(body, `"max_job_size_bytes":200`) {
		t.Errorf("after it: %d %s", status, body)
	}
}
