package e2e

import (
	"fmt"
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

// settings are the set-ups of the guide's access.md.
var settings = []string{"A laptop", "A single server", "A cluster"}

// TestSecuringAServer runs the commands of the guide's access.md: each section in one shell, with
// free ports and other directories. Servers run in the background.
func TestSecuringAServer(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	text, err := os.ReadFile("../../manual/guide/access.md")
	must(t, err)
	for _, title := range settings {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			_, section, found := strings.Cut(string(text), "\n## "+title+"\n")
			if !found {
				t.Fatal("the page has no such section")
			}
			section, _, _ = strings.Cut(section, "\n## ")
			securing(t, section)
		})
	}
}

func securing(t *testing.T, section string) {
	dir := daemon.ShortDir(t)
	free := make(map[string]string) // machine and port to a port of this machine
	address := regexp.MustCompile(`(127\.0\.0\.1|0\.0\.0\.0|10\.0\.0\.\d|jobs\.example\.com):(\d{5})`)
	here := func(machine, text string) string {
		return address.ReplaceAllStringFunc(text, func(a string) string {
			host, port, _ := strings.Cut(a, ":")
			if number, other := strings.CutPrefix(host, "10.0.0."); other {
				machine = "jobs" + number
			}
			if free[machine+port] == "" {
				_, free[machine+port], _ = net.SplitHostPort(daemon.FreeAddress(t))
			}
			if host != "jobs.example.com" {
				host = "127.0.0.1"
			}
			return host + ":" + free[machine+port]
		})
	}
	var script strings.Builder
	fmt.Fprint(&script, `set -eo pipefail
trap 'kill $(jobs -p) 2>/dev/null || :; wait' EXIT
serves() { for i in $(seq 1000); do (exec 3<>/dev/tcp/127.0.0.1/$1) 2>/dev/null && return; sleep 0.02; done; exit 1; }
`)
	for _, block := range regexp.MustCompile("(?s)```(sh|toml)\n(.*?)```").FindAllStringSubmatch(section, -1) {
		name := map[bool]string{true: "polystalkd.toml", false: "access.toml"}[strings.Contains(block[2], "binlog-dir")]
		if block[1] == "toml" {
			fmt.Fprintf(&script, "cat > %s <<'END'\n%sEND\n", name, block[2])
			if name == "polystalkd.toml" { // each machine has its own
				for _, machine := range []string{"jobs1", "jobs2", "jobs3"} {
					fmt.Fprintf(&script, "cat > %s.toml <<'END'\n%sEND\n", machine, strings.ReplaceAll(here(machine, block[2]), "/var/lib/polystalkd", dir+"/"+machine))
				}
			}
			continue
		}
		for line := range strings.Lines(block[2]) {
			machine := ""
			if name, command, ok := strings.Cut(line, "$ "); ok && strings.HasPrefix(name, "jobs") {
				machine, line = name, strings.Replace(command, "polystalkd.toml", name+".toml", 1)
			}
			line = here(machine, line)
			if strings.HasPrefix(line, "polystalkd ") {
				here(machine, "127.0.0.1:11300")
				line = strings.TrimSpace(line) + fmt.Sprintf(" -p %s 2>%s/log%s &\n", free[machine+"11300"], dir, machine)
				if machine != "" {
					line = "mkdir -p " + dir + "/" + machine + "\n" + line
				}
				for _, port := range []string{"11380", "11301", "11300"} {
					if p := free[machine+port]; p != "" {
						line += "serves " + p + "\n"
					}
				}
			}
			if strings.HasPrefix(line, "polystalk ") && !strings.Contains(section, "POLYSTALK_SERVER") { // it would find a server at a usual port
				server := "http://127.0.0.1:" + free["11380"]
				if strings.HasPrefix(line, "polystalk reserve ") {
					server = "beanstalk://127.0.0.1:" + free["11300"]
				}
				line = "POLYSTALK_SERVER=" + server + " " + line
			}
			if after, negated := strings.CutPrefix(line, "! "); negated { // -e ignores it
				line = "if " + strings.TrimSpace(after) + "; then exit 1; fi\n"
			}
			script.WriteString(line)
		}
	}
	text := strings.NewReplacer("/etc/polystalkd", dir, "jobs.example.com", "localhost").Replace(script.String())
	cmd := exec.Command("bash", "-c", text)
	cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Setpgid: true}
	cmd.Env = daemon.CleanEnv("PATH=" + filepath.Dir(daemon.Program(t)) + ":" + filepath.Dir(daemon.CLI(t)) + ":" + os.Getenv("PATH"))
	var out shared
	cmd.Stdout, cmd.Stderr = &out, &out
	must(t, cmd.Start())
	defer func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }()
	if err := cmd.Wait(); err != nil {
		logs, _ := filepath.Glob(dir + "/log*")
		for _, name := range logs {
			log, _ := os.ReadFile(name)
			out.Write(append([]byte("\n"+name+":\n"), log...))
		}
		t.Errorf("%v\n%s\n%s", err, text, out.String())
	}
}
