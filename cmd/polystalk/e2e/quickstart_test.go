package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

// TestQuickStarts runs exactly the commands of README.md, "Thirty seconds", and of the guide's
// quickstart.md, in a copy of the tree and with free ports. The jobs are worked, and the console's
// API counts them.
func TestQuickStarts(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	t.Run("README.md", func(t *testing.T) {
		quickStart(t, "../../../README.md", "\n## Thirty seconds\n", 3, "hello, ann\nhello, bob\n")
	})
	t.Run("quickstart.md", func(t *testing.T) {
		quickStart(t, "../../manual/guide/quickstart.md", "# Quick start\n", 4, "hello, ann\nhello, bob\nhello, eve\n")
	})
}

// quickStart runs the commands under a heading of a page. The last one works the jobs, and writes
// a line for each.
func quickStart(t *testing.T, page, heading string, commands int, wrote string) {
	text, err := os.ReadFile(page)
	must(t, err)
	_, section, _ := strings.Cut(string(text), heading)
	section, _, _ = strings.Cut(section, "\n## ")
	var lines []string
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(section, -1) {
		lines = append(lines, strings.Split(strings.TrimSpace(block[1]), "\n")...)
	}
	last := len(lines) - 1
	if len(lines) != commands || lines[0] != "make run" || !strings.Contains(lines[last], " work ") {
		t.Fatalf("the section has other commands: %q", lines)
	}
	dir := t.TempDir()
	out, err := exec.Command("bash", "-o", "pipefail", "-c", `tar -C ../../.. --exclude=./.git --exclude=./bin --exclude=./.ci/tmp -cf - . | tar -C "$0" -xf -`, dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	queue, http := daemon.FreeAddress(t), daemon.FreeAddress(t)
	port := func(address string) string {
		_, port, err := net.SplitHostPort(address)
		must(t, err)
		return port
	}
	start := func(line string) (*exec.Cmd, *shared) {
		cmd, out := exec.Command("bash", "-c", line), new(shared)
		cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = dir, out, out, &syscall.SysProcAttr{Setpgid: true}
		cmd.Env = daemon.CleanEnv("POLYSTALK_SERVER=beanstalk://"+queue, "MAKEFLAGS=PORT="+port(queue)+" HTTP="+port(http))
		must(t, cmd.Start())
		t.Cleanup(func() {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
			_ = cmd.Wait()
		})
		return cmd, out
	}
	// The time to compile has no bound that a test could know.
	if cmd, said := start("make build"); cmd.Wait() != nil {
		t.Fatalf("make build: %s: %s", cmd.ProcessState, said)
	}
	_, server := start(lines[0])
	server.await(t, "msg=serving listen=")
	if got := server.String(); !strings.Contains(got, "console: http://"+http+"/ ") {
		t.Errorf("it does not print the address of the console: %q", got)
	}
	for _, line := range lines[1:last] {
		if cmd, said := start(line); cmd.Wait() != nil {
			t.Fatalf("%s: %s: %s", line, cmd.ProcessState, said)
		}
	}
	_, worked := start(lines[last])
	worked.await(t, wrote)
	p := &program{t: t, server: "http://" + http}
	expectJobs(t, p, "greetings", "0 0 0 0")
	n := strings.Count(wrote, "\n")
	p.prints(fmt.Sprintln(n, n), "tube", "greetings", "--jq", `"\(.jobs_total) \(.deletes_total)"`)
	p.must(0, "health")
}
