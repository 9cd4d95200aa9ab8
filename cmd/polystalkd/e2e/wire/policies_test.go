package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/beanstalkd/go-beanstalk"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/admin"
)

// testPolicies give the tubes retry.* three attempts and a back-off from a second on, and the tubes
// full.* room for one job.
const testPolicies = `{"policies": [
	{"match": "retry.*", "attempts": 3, "backoff_seconds": 1},
	{"match": "laravel", "attempts": 3, "backoff_seconds": 1},
	{"match": "full.*", "max_jobs": 1}]}`

// kitchenWithPolicies starts a server with the testPolicies.
func kitchenWithPolicies(t *testing.T) *kitchen {
	t.Helper()
	k := startKitchen(t, accessFlag(t, "[identity.default]\nrole = \"operate\"\n")...)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+k.http+"/api/v1/policies", strings.NewReader(testPolicies))
	noErr(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+opsToken)
	resp, err := http.DefaultClient.Do(req)
	noErr(t, err)
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", resp.Status, text)
	}
	return k
}

// jobs returns the jobs of a tube in a state.
func (k *kitchen) jobs(t *testing.T, tube, state string) []admin.Job {
	t.Helper()
	resp, err := http.Get("http://" + k.http + "/api/v1/tubes/" + tube + "/jobs?state=" + state)
	noErr(t, err)
	defer resp.Body.Close()
	var list admin.Jobs
	noErr(t, json.NewDecoder(resp.Body).Decode(&list))
	return list.Jobs
}

// buriedBy wants one buried job in a tube, after a number of attempts.
func (k *kitchen) buriedBy(t *testing.T, tube string, attempts uint32) {
	t.Helper()
	hung := time.Now().Add(daemon.ClientTime)
	for {
		switch jobs := k.jobs(t, tube, "buried"); {
		case len(jobs) == 1 && jobs[0].Reserves == attempts && jobs[0].BuriedBy == "attempts":
			return
		case len(jobs) > 1 || time.Now().After(hung):
			t.Fatalf("%s: %+v", tube, jobs)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestClientsOfTubesWithPolicies: a job stops after three attempts, by whatever client. A put into a
// full tube is an error of the client, and its connection goes on.
func TestClientsOfTubesWithPolicies(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	t.Parallel()
	k := kitchenWithPolicies(t)
	t.Cleanup(func() {
		if k.server.LogHas("out of memory") { // a limit that an operator has set is no shortage
			t.Error(k.server.LogText())
		}
	})
	host, port, _ := net.SplitHostPort(k.beanstalkd)
	for _, c := range []clientScript{
		{"ruby", "ruby", beaneaterProbe, "ruby and ruby-beaneater", "policy.rb", []string{k.beanstalkd}},
		{"php", "php", pheanstalkProbe, "php-cli and php-pda-pheanstalk", "policy.php", []string{host, port}},
		{"node", "node", jackdProbe, jackdInstall, "policy.js", []string{host, port}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			runClients(t, []clientScript{c})
		})
	}
	t.Run("go", func(t *testing.T) {
		t.Parallel()
		goPolicies(t, k)
	})
	for _, g := range gearmanClients {
		t.Run("gearman/"+g.name, func(t *testing.T) {
			t.Parallel()
			if why := missingLibrary(t, g.interpreter, g.probe, g.install); why != "" {
				t.Skip(why)
			}
			gearmanPolicies(t, k, g)
		})
	}
	t.Run("laravel", func(t *testing.T) {
		t.Parallel()
		laravelPolicies(t, k)
	})
}

// goPolicies does with go-beanstalk what the scripts policy.* do.
func goPolicies(t *testing.T, k *kitchen) {
	dial := func() (*beanstalk.Conn, *beanstalk.TubeSet) {
		c, err := beanstalk.Dial("tcp", k.beanstalkd)
		noErr(t, err)
		t.Cleanup(func() { c.Close() })
		return c, beanstalk.NewTubeSet(c, "retry.go")
	}
	c, watched := dial()
	id, err := beanstalk.NewTube(c, "retry.go").Put([]byte("first"), 10, 0, time.Minute)
	noErr(t, err)
	for attempt := 1; attempt <= 3; attempt++ {
		got, _, err := watched.Reserve(10 * time.Second)
		if err != nil || got != id {
			t.Fatalf("attempt %d: job %d, %v", attempt, got, err)
		}
		if attempt == 2 {
			noErr(t, c.Close()) // the worker is lost
			c, watched = dial()
		} else {
			noErr(t, c.Release(id, 10, 0))
		}
	}
	_, _, err = watched.Reserve(0)
	if !errors.Is(err, beanstalk.ErrTimeout) {
		t.Errorf("a fourth attempt: %v", err)
	}
	k.buriedBy(t, "retry.go", 3)

	full, other := beanstalk.NewTube(c, "full.go"), beanstalk.NewTube(c, "other.go")
	_, err = full.Put([]byte("one"), 0, 0, time.Minute)
	noErr(t, err)
	if _, err = full.Put([]byte("use other.go\r\nput 0 0 1 3\r\ntwo"), 0, 0, time.Minute); !errors.Is(err, beanstalk.ErrOOM) {
		t.Errorf("a full tube: %v", err)
	}
	_, err = other.Put([]byte("two"), 0, 0, time.Minute)
	noErr(t, err)
	if n, m := len(k.jobs(t, "full.go", "ready")), len(k.jobs(t, "other.go", "ready")); n != 1 || m != 1 {
		t.Errorf("%d and %d jobs", n, m)
	}
}

// gearmanPolicies: the worker fails a background job in each way that it can, and is lost. Its clients
// hear of the failure of a foreground job at once, and of a full function.
func gearmanPolicies(t *testing.T, k *kitchen, g *gearmanClient) {
	name := "retry.gearman." + g.name
	functions := []string{"upper=" + name}
	if g.fails {
		functions = append(functions, "fail="+name+".fail")
	}
	if g.throws {
		functions = append(functions, "throw="+name+".throw")
	}
	back := []gearmanJob{{"bg", name + ".hang", "x", "created"}}
	var fore []gearmanJob
	for _, f := range functions[1:] {
		behaviour, function, _ := strings.Cut(f, "=")
		want := "fail"
		if behaviour == "throw" && g.exceptions {
			want = "exception boom"
		}
		back = append(back, gearmanJob{"bg", function, "x", "created"})
		fore = append(fore, gearmanJob{"fg", function, "x", want})
	}
	w := g.work(t, k.gearman, functions...)
	g.submit(t, k.gearman, back...)
	for range 3 {
		w := g.work(t, k.gearman, "hang="+name+".hang")
		w.await(t, "hanging x")
		w.kill()
	}
	for _, j := range back {
		k.buriedBy(t, j.function, 3)
	}
	// The worker has survived that.
	g.submit(t, k.gearman, append(fore, gearmanJob{"fg", name, "again", "result AGAIN"})...)
	w.await(t, "done again")

	full := "full.gearman." + g.name
	g.submit(t, k.gearman, gearmanJob{"bg", full, "one", "created"})
	for _, mode := range []string{"bg", "fg"} {
		if said, err := g.says(t, k.gearman, gearmanJob{mode, full, "two", ""}); !strings.Contains(fmt.Sprint(said, err), "Job queue is full") {
			t.Errorf("%s: of a full function the client says %q, %v", mode, said, err)
		}
	}
	if n := len(k.jobs(t, full, "ready")); n != 1 {
		t.Errorf("%s has %d jobs", full, n)
	}
}

// laravelPolicies runs the recipe, but Laravel itself would try its jobs for ever.
func laravelPolicies(t *testing.T, k *kitchen) {
	for _, r := range recipes {
		if r.folder != "laravel" {
			continue
		}
		require(t, append(r.needs, r.from)...)
		own := *r
		own.want = effect{puts: 3, deletes: 2, releases: 3, buries: 1}
		own.adapt = func(dir string) {
			path := filepath.Join(dir, "app", "Jobs", "SendMail.php")
			text, err := os.ReadFile(path)
			noErr(t, err)
			endless := strings.Replace(string(text), "$tries = 3;", "$tries = 0;", 1)
			if endless == string(text) {
				t.Fatal("the recipe has changed")
			}
			noErr(t, os.WriteFile(path, []byte(endless), 0o600))
		}
		cook(t, k, &own)
		k.buriedBy(t, own.tube, 3)
	}
}
