package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

// TestLargeBodiesTakeLittleMemory: below 4 times the body in each command. No byte changes on the
// way from put through export, import and work to reserve.
func TestLargeBodiesTakeLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	const size = 64 << 20
	python := daemon.Tool(t, "python3", "python3")
	body := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(body)
	p, s := polystalkd(t, "-z", fmt.Sprint(size))
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "body"), body, 0o600))
	polystalk := func(server, line string) {
		t.Helper()
		// The memory of a child counts from its start. Without Python, the memory of this test counts too.
		cmd := exec.Command(python, "-c", "import os, resource, sys; code = os.system(sys.argv[1]); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss); sys.exit(code != 0)", line)
		cmd.Dir, cmd.Env = dir, daemon.CleanEnv("POLYSTALK_SERVER="+server, "PATH="+filepath.Dir(daemon.CLI(t))+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		lines := strings.Fields(string(out))
		kB, isNumber := strconv.Atoi(lines[len(lines)-1])
		if err != nil || isNumber != nil || kB > 4*size/1024 {
			t.Errorf("%s: %v: %s", line, err, out)
		}
	}
	queue := "beanstalk://" + s.Listen[0]
	polystalk(p.server, "polystalk put a body")
	polystalk(queue, "cat body | polystalk put a") // a pipe, whose size is unknown
	polystalk(p.server, "polystalk export a --file http.jsonl")
	polystalk(queue, "polystalk export a --id 1-2 --file queue.jsonl")
	polystalk(p.server, "polystalk import queue.jsonl --to b")
	polystalk(queue, "polystalk import http.jsonl --to c")
	for _, tube := range []string{"a", "a", "b", "b"} {
		polystalk(queue, "polystalk reserve --wait 0 "+tube+" > got && cmp got body")
	}
	polystalk(queue, "polystalk work c --idle 1 -- cmp - body")
	expectJobs(t, p, "c", "0 0 0 0") // a job is buried if a byte differs
}
