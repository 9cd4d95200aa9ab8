package cluster

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

// at runs polystalk against a server.
func at(t *testing.T, server string, args ...string) daemon.Outcome {
	t.Helper()
	return operate(t, append(args, "--server", server)...)
}

// works waits until a command succeeds and prints a text: the leader may just have changed.
func works(t *testing.T, says string, server string, args ...string) {
	t.Helper()
	var out daemon.Outcome
	defer func() {
		if t.Failed() {
			t.Logf("%v at %s: exit code %d: %s%s, want %q", args, server, out.Code, out.Stdout, out.Stderr, says)
		}
	}()
	eventually(t, "an operator's command works", func() bool {
		out = at(t, server, args...)
		return out.Code == 0 && strings.Contains(out.Stdout+out.Stderr, says)
	})
}

// withHTTP starts a cluster of three servers that serve HTTP, and returns their URLs.
func withHTTP(t *testing.T, timeout string, flags ...string) (all []*node, urls map[*node]string) {
	t.Helper()
	urls = make(map[*node]string)
	for i := range 3 {
		n := newNode(t, fmt.Sprint("jobs", i+1))
		n.timeout = timeout
		address := daemon.FreeAddress(t)
		urls[n] = "http://" + address
		first := "--cluster-new"
		if i > 0 {
			first = "--cluster-join=" + all[0].cluster
		}
		n.start(append(flags, "--http", address, first)...)
		all = append(all, n)
	}
	awaitVoters(t, all[0], 3)
	return all, urls
}

// The leader answers operators' requests to a follower, over HTTP and over the socket in the
// directory, also after another server leads. A check is critical when no server leads.
func TestOperatorsAtAnyServer(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	const secret = "secret-0123456789-0123456789"
	token := filepath.Join(t.TempDir(), "token")
	tokens := token + "s"
	for path, text := range map[string]string{token: secret, tokens: fmt.Sprintf("[identity.boss]\nrole = \"admin\"\ntokens = [\"sha256:%x\"]\n[identity.default]\nrole = \"operate\"\n", sha256.Sum256([]byte(secret)))} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, urls := withHTTP(t, "5s", "--access-file", tokens)
	l, others := leader(t, all)
	follower := others[0]
	servers := []string{urls[follower], urls[others[1]], "unix:" + filepath.Join(follower.dir, "cluster.sock")}
	for i, server := range servers {
		works(t, "", server, "put", "mail", "--body", fmt.Sprint("job ", i))
		works(t, "mail", server, "tube", "mail")
		works(t, "mail", server, "tubes") // the list is some seconds old
		works(t, "job 0", server, "body", "1")
		works(t, "POLYSTALK OK", server, "check")
		works(t, fmt.Sprintf("%d ready, journal open", i+1), server, "check", "--tube", "mail", "--ready", ":100", "--journal")
	}
	eventually(t, "the leader shows the tube", func() bool {
		res, err := http.Get(urls[follower] + "/api/v1/tubes/mail")
		if err != nil {
			return false
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		var tube struct{ Jobs struct{ Ready uint64 } }
		by := res.Header.Get("Polystalk-Server")
		return json.Unmarshal(b, &tube) == nil && tube.Jobs.Ready == 3 && by != "" && by != follower.name
	})

	works(t, "", urls[follower], "cluster", "transfer", others[1].name, "--token-file", token)
	leader(t, all)
	works(t, "", urls[follower], "check")
	works(t, "3 ready", urls[l], "check", "--tube", "mail") // usually it is a follower now

	for _, n := range all {
		if n != follower {
			n.Signal(syscall.SIGKILL)
			<-n.Done
		}
	}
	eventually(t, "no server leads", func() bool {
		out := at(t, urls[follower], "check")
		return out.Code == 2 && strings.Contains(out.Stdout, "no server of the cluster leads")
	})
	begin := time.Now()
	if out := at(t, urls[follower], "put", "mail", "--body", "x"); out.Code == 0 {
		t.Errorf("a job is taken after %v without a leader", time.Since(begin))
	}
}

// A leader is stopped, another one leads and deletes a job. When the first one continues, no HTTP
// answer of it shows the job or says that it leads.
func TestResumedLeaderTellsNothingStale(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	all, web := withHTTP(t, swift, "--http-anonymous", "operate")
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
