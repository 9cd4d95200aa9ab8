package cluster

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

// A leader is stopped, another one leads and deletes a job. When the first one continues, no HTTP
// answer of it shows the job or says that it leads.
func TestResumedLeaderTellsNothingStale(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	all, web := withHTTP(t, swift)
	client := &http.Client{Timeout: daemon.Hang, Transport: &http.Transport{DisableKeepAlives: true}}
	answers := make(map[int]int)
	for round := range 2 {
		l, others := leader(t, all)
		tube := fmt.Sprint("tube", round)
		id := ""
		eventually(t, "a job is put", func() bool {
			_, id, _ = strings.Cut(ask(l.queue, "use "+tube+"\r\nput 0 0 60 5\r\nhello\r\n"), "INSERTED ")
			id = strings.TrimSpace(id)
			return id != ""
		})
		l.Freeze()
		leader(t, others)
		eventually(t, "another one leads, and deletes the job", func() bool {
			answer := ask(others[0].queue, "delete "+id+"\r\n")
			return strings.Contains(answer, "DELETED") || strings.Contains(answer, "NOT_FOUND") // an answer was lost
		})
		var mu sync.Mutex
		var requests sync.WaitGroup
		for _, path := range []string{
			"/leader", "/metrics", "/metrics/tubes", "/api/v1/server", "/api/v1/drain",
			"/api/v1/history", "/api/v1/tubes", "/api/v1/tubes/" + tube, "/api/v1/tubes/" + tube + "/jobs",
			"/api/v1/jobs", "/api/v1/jobs/" + id, "/api/v1/jobs/" + id + "/body", "/api/v1/connections", "/api/v1/operations",
			"/api/v1/events?topics=server,tubes",
		} {
			requests.Go(func() { // some wait in the backlog when the server continues
				res, err := client.Get(web[l] + path)
				if err != nil {
					return
				}
				defer res.Body.Close()
				if strings.Contains(path, "/events") { // an endless answer
					time.AfterFunc(time.Second, func() { res.Body.Close() })
				}
				body, _ := io.ReadAll(res.Body)
				text := string(body)
				mu.Lock()
				defer mu.Unlock()
				answers[res.StatusCode]++
				stale := strings.Contains(text, `"state":"ready"`) && strings.Contains(text, tube) || text == "hello" ||
					strings.Contains(text, `"`+tube+`"`) && strings.Contains(text, `"ready":1`) ||
					path == "/leader" && res.StatusCode == http.StatusOK
				if by := res.Header.Get("Polystalk-Server"); stale && by == "" {
					t.Errorf("round %d: %s at %s: %d %.300s", round, path, l.name, res.StatusCode, text)
				}
			})
		}
		l.Signal(syscall.SIGCONT)
		requests.Wait()
	}
	t.Logf("answers by their status: %v", answers)
}
