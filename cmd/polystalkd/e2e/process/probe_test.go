package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/cmd/polystalkd/fault"
)

// probed runs a probe of /readyz.
func probed(t *testing.T, env []string, args ...string) daemon.Outcome {
	t.Helper()
	return daemon.RunToEnd(t, daemon.Binary, env, append(args, "--probe", "/readyz")...)
}

// TestProbeFindsTheServerAsItWasTold: by flags, variables or files, on TCP and unix
// sockets, in place of gearmand, and once it is gone.
func TestProbeFindsTheServerAsItWasTold(t *testing.T) {
	path := filepath.Join(daemon.ShortDir(t), "h")
	s := daemon.Serve(t, "--http", "127.0.0.1:0", "--http", "unix:"+path)
	tcp := httpOf(t, s)
	clean := daemon.CleanEnv()
	file := filepath.Join(t.TempDir(), "p.toml")
	if err := os.WriteFile(file, []byte("http = ['unix:"+path+"']\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ask := func() map[string]daemon.Outcome {
		return map[string]daemon.Outcome{
			"flag":             probed(t, clean, "--http", tcp),
			"socket":           probed(t, clean, "--http", "unix:"+path),
			"variable":         probed(t, daemon.CleanEnv("POLYSTALKD_HTTP="+tcp)),
			"file":             probed(t, clean, "--config", file),
			"first of several": probed(t, clean, "--http", tcp, "--http", "127.0.0.1:1"),
			"gearmand":         probed(t, clean, "gearmand", "--config-file", "/dev/null", "--http", tcp),
		}
	}
	for name, got := range ask() {
		if got != (daemon.Outcome{Code: 0, Stdout: "ok\n"}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	s.Signal(syscall.SIGTERM)
	s.EndsWith(0)
	for name, got := range ask() {
		if got.Code != 1 || got.Stdout != "" || strings.Count(got.Stderr, "\n") != 1 || !strings.Contains(got.Stderr, "nobody listens") {
			t.Errorf("%s, once it is gone: %+v", name, got)
		}
	}
}

func TestProbeSpeaksTLS(t *testing.T) {
	cert, key, _ := writeCertificate(t)
	args := []string{"--http-tls-cert", cert, "--http-tls-key", key}
	s := daemon.Serve(t, append(args, "--http", "127.0.0.1:0")...)
	if got := probed(t, daemon.CleanEnv(), append(args, "--http", httpOf(t, s))...); got != (daemon.Outcome{Code: 0, Stdout: "ok\n"}) {
		t.Errorf("%+v", got)
	}
	if got := probed(t, daemon.CleanEnv(), "--http", httpOf(t, s)); got.Code != 1 || strings.Count(got.Stderr, "\n") != 1 {
		t.Errorf("without TLS: %+v", got)
	}
}

// TestProbeIsNoServer: what cannot be asked does not come to serve instead, and a variable
// of that name is nobody's wish to probe.
func TestProbeIsNoServer(t *testing.T) {
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--probe", ""}, fault.Usage, "/readyz"},
		{[]string{"--probe"}, fault.Usage, "missing"},
		{[]string{"--probe", "readyz"}, fault.Usage, "/readyz"},
		{[]string{"--probe", "/readyz"}, 1, "--http"},
		{[]string{"--probe", "/readyz", "--loops", "-1"}, 1, "--loops"},
	} {
		got := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(), tt.args...)
		if got.Code != tt.code || got.Stdout != "" || strings.Count(got.Stderr, "\n") != 1 || !strings.Contains(got.Stderr, tt.want) {
			t.Errorf("%q: %+v", tt.args, got)
		}
	}
	cmd := exec.Command(daemon.Binary, "--log-format", "json", "-l", "127.0.0.1", "-p", "0")
	cmd.Env = daemon.CleanEnv("POLYSTALKD_PROBE=/readyz")
	daemon.Await(t, cmd)
}
