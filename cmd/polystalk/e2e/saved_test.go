package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"polystalk/cmd/polystalk/client"
)

// TestSavedBeforeDeleted: by beanstalkd's protocol a job is deleted once its file has it. What
// ends the program in between, or a disk that fills up, must not end the job as well.
func TestSavedBeforeDeleted(t *testing.T) {
	const jobs = 3
	file := filepath.Join(t.TempDir(), "saved")
	lost := make(chan int, jobs)
	yaml := func(conn net.Conn, text string) { fmt.Fprintf(conn, "OK %d\r\n---\n%s\r\n", len(text)+4, text) }
	address := serving(t, func(conn net.Conn) {
		next := 1
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			switch command, _, _ := strings.Cut(lines.Text(), " "); command {
			case "list-tube-used":
				_, _ = io.WriteString(conn, "USING default\r\n")
			case "stats-tube":
				yaml(conn, fmt.Sprintf("name: mail\ncurrent-jobs-ready: %d\ncurrent-jobs-delayed: 0\ncurrent-jobs-buried: 0\n", jobs))
			case "use":
				_, _ = io.WriteString(conn, "USING mail\r\n")
			case "peek-ready":
				if next > jobs {
					_, _ = io.WriteString(conn, "NOT_FOUND\r\n")
					continue
				}
				_, _ = fmt.Fprintf(conn, "FOUND %d 1\r\nx\r\n", next)
			case "stats-job":
				yaml(conn, fmt.Sprintf("id: %d\ntube: mail\nstate: ready\npri: 0\nage: 0\ndelay: 0\nttr: 60\ntime-left: 0\n", next))
			case "delete":
				if b, err := os.ReadFile(file); err != nil || strings.Count(string(b), "\n") != next {
					lost <- next
				}
				next++
				_, _ = io.WriteString(conn, "DELETED\r\n")
			default:
				_, _ = io.WriteString(conn, "NOT_FOUND\r\n")
			}
		}
	})
	p := &program{t: t, server: "beanstalk://" + address}
	if o := p.must(client.OK, "flush", "mail", "--state", "ready", "--save", file, "--yes"); o.stdout != "flush: 3 jobs of tube mail\n" {
		t.Errorf("%q", o.stdout)
	}
	close(lost)
	for id := range lost {
		t.Errorf("job %d was deleted, and the file did not have it", id)
	}
}
