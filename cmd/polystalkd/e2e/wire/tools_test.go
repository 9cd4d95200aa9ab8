package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

// A tool is a program that operators run beside the server.
type tool struct {
	name   string
	from   source
	covers string
	link   string // from the page, or none
	test   func(*testing.T, *kitchen)
}

// monitoringDir has the files for Prometheus and Grafana.
var monitoringDir = filepath.Join("..", "..", "..", "..", "router", "http", "monitoring")

const monitoringLink = "../../../router/http/monitoring"

var tools = []*tool{
	{"Prometheus", source{"deb", "prometheus"}, "scrapes the server; loads the alerts; `promtool` tests them", monitoringLink + "/prometheus.yml", scrapes},
	{"Grafana dashboard", source{"deb", "prometheus"}, "each query of the dashboard, asked to Prometheus; the version is Prometheus's", monitoringLink + "/dashboard.json", nil}, // scrapes
	{"HAProxy", source{"deb", "haproxy"}, "both protocols through it, with a health check", "recipes/haproxy/haproxy.cfg", proxies},
	{"Nagios, Icinga", source{"deb", "monitoring-plugins-basic"}, "ready, answers, buried jobs", "recipes/nagios/commands.cfg", checks},
	{"curl", source{"program", "curl --version"}, "puts a job and reads a tube over HTTP", "", curls},
	{"gearadmin", source{"deb", "gearman-tools"}, "every option", "", nil},                // TestGearmanClients
	{"nginx", source{"deb", "nginx-light"}, "console and API below three paths", "", nil}, // TestBehindNginx
}

// TestTools runs the tools with their configurations from the guide.
func TestTools(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	t.Parallel()
	for _, tool := range tools {
		if tool.test != nil {
			t.Run(tool.name, func(t *testing.T) {
				t.Parallel()
				require(t, tool.from)
				tool.test(t, startKitchen(t))
			})
		}
	}
}

// configured copies a configuration with the addresses of a running server instead of the defaults.
func configured(t *testing.T, k *kitchen, name, to string, more ...string) {
	t.Helper()
	text, err := os.ReadFile(name)
	noErr(t, err)
	pairs := append([]string{"127.0.0.1:11300", k.beanstalkd, "127.0.0.1:4730", k.gearman, "127.0.0.1:11380", k.http}, more...)
	noErr(t, os.WriteFile(to, []byte(strings.NewReplacer(pairs...).Replace(string(text))), 0o600))
}

// background runs a program until the end of the test.
func background(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	noErr(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // killed
		if t.Failed() {
			t.Logf("%s: %s", name, &log)
		}
	})
}

// eventually repeats ask until it succeeds.
func eventually(t *testing.T, ask func() error) {
	t.Helper()
	end := time.Now().Add(daemon.ClientTime)
	for err := ask(); err != nil; err = ask() {
		if time.Now().After(end) {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// expressions matches the queries of the dashboard, as JSON.
var expressions = regexp.MustCompile(`"expr": *("(?:[^"\\]|\\.)*")`)

func scrapes(t *testing.T, k *kitchen) {
	dir, address := t.TempDir(), daemon.FreeAddress(t)
	config := filepath.Join(dir, "prometheus.yml")
	configured(t, k, filepath.Join(monitoringDir, "prometheus.yml"), config, "15s", "1s")
	configured(t, k, filepath.Join(monitoringDir, "alerts.yml"), filepath.Join(dir, "alerts.yml"))
	background(t, "prometheus", "--config.file="+config, "--storage.tsdb.path="+dir, "--web.listen-address="+address)
	type sample struct {
		Metric map[string]string
		Value  []any
	}
	query := func(expr string) (result []sample, err error) {
		resp, err := http.Get("http://" + address + "/api/v1/query?query=" + url.QueryEscape(expr))
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		var answer struct {
			Status, Error string
			Data          struct{ Result []sample }
		}
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || answer.Status != "success" {
			return nil, fmt.Errorf("%s: %s %v", expr, answer.Error, err)
		}
		return answer.Data.Result, nil
	}
	daemon.Says(t, daemon.Dial(t, k.beanstalkd), "put 0 0 60 1\r\nx\r\n", "INSERTED 1\r\n")
	eventually(t, func() error {
		got, err := query(`polystalk_jobs{job="polystalkd", state="ready"}`)
		if err == nil && (len(got) != 1 || got[0].Value[1] != "1") {
			err = fmt.Errorf("ready jobs in Prometheus: %v", got)
		}
		return err
	})
	if got, err := query(`up{job="polystalkd"}`); err != nil || len(got) != 1 {
		t.Errorf("up: %v, %v", got, err)
	}
	dashboard, err := os.ReadFile(filepath.Join(monitoringDir, "dashboard.json"))
	noErr(t, err)
	all := expressions.FindAllSubmatch(dashboard, -1)
	for _, m := range all {
		var expr string
		noErr(t, json.Unmarshal(m[1], &expr))
		if _, err := query(strings.NewReplacer("$instance", ".*", "$tube", ".*", "$__rate_interval", "1m").Replace(expr)); err != nil {
			t.Errorf("Grafana's dashboard: %v", err)
		}
	}
	if len(all) < 50 {
		t.Errorf("the dashboard has only %d queries", len(all))
	}
	resp, err := http.Get("http://" + address + "/api/v1/rules?type=alert")
	noErr(t, err)
	defer resp.Body.Close()
	var rules bytes.Buffer
	if _, err := rules.ReadFrom(resp.Body); err != nil || !strings.Contains(rules.String(), `"PolystalkDown"`) {
		t.Errorf("the alerts are not loaded: %v, %.500s", err, &rules)
	}
}

func proxies(t *testing.T, k *kitchen) {
	config := filepath.Join(t.TempDir(), "haproxy.cfg")
	front, gearman := daemon.FreeAddress(t), daemon.FreeAddress(t)
	_, httpPort, _ := strings.Cut(k.http, ":")
	configured(t, k, filepath.Join(recipesDir, "haproxy", "haproxy.cfg"), config, "127.0.0.1:11400", front, "127.0.0.1:14730", gearman, "port 11380", "port "+httpPort)
	path, err := exec.LookPath("/usr/sbin/haproxy")
	if err != nil {
		path = daemon.Tool(t, "haproxy", "haproxy")
	}
	background(t, path, "-db", "-f", config)
	for address, ask := range map[string][2]string{front: {"put 0 0 60 1\r\nx\r\n", "INSERTED 1\r\n"}, gearman: {"version\n", "OK 2.0.0+polystalk"}} {
		eventually(t, func() error { // HAProxy starts
			conn, err := net.Dial("tcp", address)
			if err == nil {
				conn.Close()
			}
			return err
		})
		daemon.Says(t, daemon.Dial(t, address), ask[0], ask[1])
	}
}

// commandLine matches a command of Nagios, with its name.
var commandLine = regexp.MustCompile(`command_name (\S+)\s+command_line (.*)`)

func checks(t *testing.T, k *kitchen) {
	text, err := os.ReadFile(filepath.Join(recipesDir, "nagios", "commands.cfg"))
	noErr(t, err)
	_, port, _ := strings.Cut(k.beanstalkd, ":")
	_, httpPort, _ := strings.Cut(k.http, ":")
	commands := strings.NewReplacer("$HOSTADDRESS$", "127.0.0.1", "11300", port, "11380", httpPort).Replace(string(text))
	expect := func(name string, code int) error {
		for _, m := range commandLine.FindAllStringSubmatch(commands, -1) {
			if m[1] == name {
				if got := daemon.RunToEnd(t, "sh", os.Environ(), "-c", m[2]); got.Code != code {
					return fmt.Errorf("%s: exit code %d, want %d: %s", m[2], got.Code, code, got.Stdout)
				}
				return nil
			}
		}
		return fmt.Errorf("there is no command %s", name)
	}
	for _, name := range []string{"check_polystalkd_ready", "check_beanstalkd", "check_polystalkd_buried"} {
		noErr(t, expect(name, 0))
	}
	c := daemon.Dial(t, k.beanstalkd)
	daemon.Says(t, c, "put 0 0 60 1\r\nx\r\nreserve\r\nbury 1 0\r\n", "INSERTED 1\r\nRESERVED 1 1\r\nx\r\nBURIED\r\n")
	// The server shows a sample that is at most two seconds old.
	eventually(t, func() error { return expect("check_polystalkd_buried", 2) })
}

func curls(t *testing.T, k *kitchen) {
	jobs := "http://" + k.http + "/api/v1/tubes/mail"
	if got := daemon.RunToEnd(t, "curl", os.Environ(), "-sf", "--json", `{"body": "hello"}`, jobs+"/jobs"); got.Code != 0 {
		t.Errorf("put: %+v", got)
	}
	if got := daemon.RunToEnd(t, "curl", os.Environ(), "-sf", jobs); got.Code != 0 || !strings.Contains(got.Stdout, `"ready":1`) {
		t.Errorf("the tube: %+v", got)
	}
}
