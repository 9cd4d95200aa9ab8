package e2e

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
)

// TestThirtySecondsOfTheReadme runs exactly the commands of that section, in a copy of the tree and
// with free ports. The jobs are worked, and the console's API counts them.
func TestThirtySecondsOfTheReadme(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	text, err := os.ReadFile("../../../README.md")
	must(t, err)
	_, section, _ := strings.Cut(string(text), "\n## Thirty seconds\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var lines []string
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(section, -1) {
		lines = append(lines, strings.Split(strings.TrimSpace(block[1]), "\n")...)
	}
	if len(lines) != 3 || lines[0] != "make run" || !strings.Contains(lines[2], " work ") {
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
	_, server := start(lines[0])
	server.await(t, "msg=serving listen=")
	if got := server.String(); !strings.Contains(got, "console: http://"+http+"/ ") {
		t.Errorf("it does not print the address of the console: %q", got)
	}
	put, said := start(lines[1])
	if err := put.Wait(); err != nil {
		t.Fatalf("%s: %v: %s", lines[1], err, said)
	}
	_, worked := start(lines[2])
	worked.await(t, "hello, ann\nhello, bob\n")
	p := &program{t: t, server: "http://" + http}
	expectJobs(t, p, "greetings", "0 0 0 0")
	p.prints("2 2\n", "tube", "greetings", "--jq", `"\(.jobs_total) \(.deletes_total)"`)
	page, err := exec.Command(filepath.Join(dir, "bin", "polystalk"), "health", "--server", p.server).CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, page)
	}
}
