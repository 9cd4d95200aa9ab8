package process

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

// TestStartLineNamesTheSettings: what an operator asks first, whatever it was set by.
func TestStartLineNamesTheSettings(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct{ args, want string }{
		{"--max-connections 7", "listen=1 journal=none fsync=<nil> segment-size=<nil> max-job-size=65535 max-connections=7 max-connections-from=--max-connections"},
		{"-b " + dir, "listen=1 journal=" + dir + " fsync=before answering segment-size=1.048576e+07 max-job-size=65535"},
		{"-b " + dir + " -f 50 -s 1 -z 100", "fsync=within 50ms segment-size=262144 max-job-size=100"},
		{"-b " + dir + " -F", "fsync=left to the kernel"},
	} {
		s := daemon.Serve(t, strings.Fields(tt.args)...)
		line := s.WaitLog("serving")
		line["listen"] = len(s.Listen)
		var got []string
		for _, key := range []string{"listen", "journal", "fsync", "segment-size", "max-job-size", "max-connections", "max-connections-from"} {
			got = append(got, fmt.Sprint(key, "=", line[key]))
		}
		if all := strings.Join(got, " "); !strings.Contains(all, tt.want) {
			t.Errorf("%s: the log says %s", tt.args, all)
		}
		s.Cmd.Process.Kill()
		<-s.Done
	}

	s, _ := daemon.GearmandWith(t, "-f", "100", "--gearman-max-body", "99", "--gearman-shutdown", "none")
	if line := s.WaitLog("serving"); line["max-connections"].(float64) > 69 || line["max-connections-from"] != "the limit of 100 descriptors" || line["journal"] != "none" {
		t.Errorf("the log says %v", line)
	}
	if line := s.WaitLog("serving Gearman"); line["prefix"] != "H:x" || line["max-body"] != 99.0 || line["max-unread"] != 198.0 || line["shutdown"] != "none" {
		t.Errorf("the log says %v", line)
	}
}

// TestRefusedConnectionIsExplained: the log names the limit that refused it.
func TestRefusedConnectionIsExplained(t *testing.T) {
	s, gear := daemon.GearmandWith(t, "--max-connections", "3")
	for range 3 {
		daemon.Says(t, daemon.Dial(t, gear), "maxqueue f 1\n", "OK\r\n")
	}
	one, err := net.DialTimeout("tcp", gear, daemon.Hang)
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	one.SetDeadline(time.Now().Add(daemon.Hang))
	if _, err := io.ReadAll(one); isTimeout(err) {
		t.Fatal("it is not refused")
	}
	line := s.WaitLog("refused a connection: as many as can be served are open")
	if line["conn"] != one.LocalAddr().String() || line["from"] != "--max-connections" || line["limit"] != 3.0 {
		t.Errorf("the log says %v", line)
	}
}

// TestClientsWaitForDescriptors: clients without a descriptor are neither
// closed nor forgotten; each is served once another leaves, and the log says why.
func TestClientsWaitForDescriptors(t *testing.T) {
	s, gear := daemon.GearmandWith(t, "-f", "64")
	limit := int(s.WaitLog("serving")["max-connections"].(float64))
	var in, waiting []net.Conn
	for range limit {
		c := daemon.Dial(t, gear)
		daemon.Says(t, c, "maxqueue f 1\n", "OK\r\n")
		in = append(in, c)
	}
	for range limit {
		c := daemon.Dial(t, gear)
		if _, err := io.WriteString(c, "maxqueue f 1\n"); err != nil {
			t.Fatal(err)
		}
		waiting = append(waiting, c)
	}
	line := s.WaitLog("clients wait to be accepted: as many as can be served are open")
	if line["from"] != "the limit of 64 descriptors" || line["limit"] != float64(limit) {
		t.Errorf("the log says %v", line)
	}
	waiting[0].SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := waiting[0].Read(make([]byte, 1)); n != 0 || !isTimeout(err) {
		t.Fatalf("one that waits: %d bytes, %v", n, err)
	}
	waiting[0].SetReadDeadline(time.Now().Add(daemon.Hang))
	for i, c := range in {
		c.Close()
		daemon.Hears(t, waiting[i], "OK\r\n")
	}
}
