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
		n.start(append(flags, "--http", address, "--http-anonymous", "operate", first)...)
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
	token := filepath.Join(t.TempDir(), "token")
	tokens := token + "s"
	for path, text := range map[string]string{token: "secret", tokens: fmt.Sprintf("boss admin sha256:%x\n", sha256.Sum256([]byte("secret")))} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, urls := withHTTP(t, "5s", "--http-tokens-file", tokens)
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
