package main

import (
	"bytes"
	"log/slog"
	"log/syslog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestLogFileIsOpenedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("of yesterday\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := gearmandCommand("-l", path)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	awaitFile(t, path, `"msg":"serving"`)
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	awaitFile(t, path, "the log file was opened again")

	// Where it cannot be, the old one goes on.
	if err := os.Rename(path, path+".2"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	awaitFile(t, path+".2", "cannot be opened again")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	awaitFile(t, path+".2", "shutting down")
	old, err := os.ReadFile(path + ".1")
	if err != nil || !strings.HasPrefix(string(old), "of yesterday\n") || strings.Contains(string(old), "shutting down") {
		t.Errorf("the file that was moved away holds %q, %v", old, err)
	}
	if stderr.Len() > 0 {
		t.Errorf("stderr: %s", &stderr)
	}
}

// TestHangUpWithoutALogFile: nothing happens.
func TestHangUpWithoutALogFile(t *testing.T) {
	s, gear := gearmandWith(t, "-l", "stderr")
	s.signal(syscall.SIGHUP)
	if s.waitLog("ignored: there is no log file to open again") == nil {
		t.Fatal("it ended")
	}
	says(t, dial(t, gear), "maxqueue f\n", "OK\r\n")
}

func TestLogCanBeSwitchedOff(t *testing.T) {
	notify := notifySocket(t)
	cmd := gearmandCommand("--log-file", "none", "-t", "4")
	cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+notify.LocalAddr().String())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	readState(t, notify)
	cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if stderr.Len() > 0 {
		t.Errorf("stderr: %s", &stderr)
	}
}

// TestSyslogTellsSeverities: as the daemon gets them, 8 for each facility and one for
// each severity.
func TestSyslogTellsSeverities(t *testing.T) {
	path := filepath.Join(shortDir(t), "s")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: path})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetReadDeadline(time.Now().Add(hang))
	w, err := syslog.Dial("unixgram", path, syslog.LOG_DAEMON|syslog.LOG_INFO, "gearmand")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, format := range []string{"text", "json"} {
		log := slog.New(newSyslogHandler(&Config{LogFormat: format}, w, slog.LevelInfo)).With("a", 1).WithGroup("g")
		log.Debug("unheard")
		for _, tt := range []struct {
			level    slog.Level
			severity string
		}{{slog.LevelInfo, "<30>"}, {slog.LevelWarn, "<28>"}, {slog.LevelError, "<27>"}} {
			log.Log(t.Context(), tt.level, "hello", "b", 2)
			buf := make([]byte, 1000)
			n, err := conn.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.TrimSuffix(string(buf[:n]), "\n")
			want := "msg=hello a=1 g.b=2"
			if format == "json" {
				want = `{"msg":"hello","a":1,"g":{"b":2}}`
			}
			if !strings.HasPrefix(got, tt.severity) || !strings.HasSuffix(got, ": "+want) || !strings.Contains(got, "gearmand[") {
				t.Errorf("%v: %q, want %s…: %s", tt.level, got, tt.severity, want)
			}
		}
	}
}

// TestPipeThatNobodyReads: to open it would wait for a reader, deaf to signals.
func TestPipeThatNobodyReads(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for flag, what := range map[string]string{"-l": "the log", "-P": "the process id"} {
		got := runToEnd(t, binary, cleanEnv(), "gearmand", "-L", "127.0.0.1", "-p", "0", flag, pipe)
		if want := "polystalkd gearmand: flag " + flag + ": " + what + " cannot be written ("; got.code != 1 || !strings.HasPrefix(got.stderr, want) {
			t.Errorf("%s with a pipe: %+v, want %q", flag, got, want)
		}
	}
}
