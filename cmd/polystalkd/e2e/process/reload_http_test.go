package process

import (
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

// TestFilesOfHTTPAreReadAgain: tokens and certificates, with the configuration and all or
// nothing; without one by themselves. They are the service manager's credentials here.
func TestFilesOfHTTPAreReadAgain(t *testing.T) {
	dir := t.TempDir()
	cert, key, tokens := filepath.Join(dir, "http-tls-cert"), filepath.Join(dir, "http-tls-key"), filepath.Join(dir, "http-tokens")
	token := func(s string) { write(t, tokens, fmt.Sprintf("a admin sha256:%x\n", sha256.Sum256([]byte(s)))) }
	writeCertificate(t, cert, key, 1)
	token("one")
	for _, configured := range []bool{true, false} {
		path := confFile(t, "max-job-size = 10\n")
		args := []string{"--log-format", "json", "-l", "127.0.0.1", "-p", "0", "--http", "127.0.0.1:0"}
		if configured {
			args = append(args, "--config", path)
		}
		cmd := exec.Command(daemon.Binary, args...)
		notify := daemon.NotifySocket(t)
		cmd.Env = daemon.CleanEnv("NOTIFY_SOCKET="+notify.LocalAddr().String(), "CREDENTIALS_DIRECTORY="+dir)
		s := daemon.Await(t, cmd)
		if got := daemon.ReadState(t, notify); got != "READY=1" {
			t.Fatal(got)
		}
		address := s.WaitLog("serving HTTP")["listen"].(string)
		expect := func(number int64, token string, status int) {
			t.Helper()
			client := &http.Client{Timeout: daemon.Hang, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
			q, err := http.NewRequest("GET", "https://"+address+"/api/v1/config", nil)
			if err != nil {
				t.Fatal(err)
			}
			q.Header.Set("Authorization", "Bearer "+token)
			a, err := client.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			a.Body.Close()
			if got := a.TLS.PeerCertificates[0].SerialNumber.Int64(); got != number || a.StatusCode != status {
				t.Errorf("configured %v, token %s: certificate %d, status %d; want %d, %d", configured, token, got, a.StatusCode, number, status)
			}
		}
		expect(1, "one", 200)
		token("two")
		if configured { // nothing holds of what is right beside a key that is none
			write(t, key, "broken")
			write(t, path, "max-job-size = 20\n")
			reload(t, s, notify)
			logs(t, s, "credential http-tls-cert", 1)
			logs(t, s, "nothing was changed", 1)
			expect(1, "one", 200)
			if got := daemon.Stats(t, s.Listen[0])["max-job-size"]; got != "10" {
				t.Errorf("jobs of %s bytes", got)
			}
		}
		writeCertificate(t, cert, key, 2)
		reload(t, s, notify)
		logs(t, s, "the tokens were read again", 1)
		logs(t, s, "the certificate was read again", 1)
		expect(2, "two", 200)
		expect(2, "one", 401)
		if !configured {
			if err := os.Remove(key); err != nil {
				t.Fatal(err)
			}
			reload(t, s, notify)
			logs(t, s, "the certificate stays as it was", 1)
			expect(2, "two", 200)
		}
		if strings.Contains(s.LogText(), "PRIVATE") {
			t.Error("the log has the key")
		}
		s.Signal(syscall.SIGTERM)
		s.EndsWith(0)
		writeCertificate(t, cert, key, 1)
		token("one")
	}
}
