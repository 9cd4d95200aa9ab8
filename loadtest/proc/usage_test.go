package proc

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMain lets this binary be started as a child whose CPU is measured.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "burn" {
		burn()
		return
	}
	os.Exit(m.Run())
}

// burn is the child of TestCPUOfAChild: it prints its cores, uses a known
// amount of CPU, says so and waits for its input to end.
func burn() {
	fmt.Println(AllowedCPUs())
	for {
		t, err := CPU(os.Getpid())
		if err != nil {
			fmt.Println(err)
			return
		}
		if t.Total >= 60*time.Millisecond {
			break
		}
	}
	fmt.Println("done")
	bufio.NewReader(os.Stdin).ReadByte()
}

func TestCPUOfAChild(t *testing.T) {
	cpus := AllowedCPUs()
	one := cpus[max(0, len(cpus)-1):] // none where there is no pinning
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "burn")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := NewSpawner().Start(cmd, one); err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(stdout)
	cores, _ := out.ReadString('\n')
	word, _ := out.ReadString('\n')
	used, err := CPU(cmd.Process.Pid)
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if err != nil || strings.TrimSpace(word) != "done" {
		t.Fatalf("child said %q, its clock %v", word, err)
	}
	if strings.TrimSpace(cores) != fmt.Sprint(one) {
		t.Errorf("the child ran on cores %s, expected %v", cores, one)
	}
	total := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	const tick = 10 * time.Millisecond
	if used.Total < 60*time.Millisecond || used.Total > total+tick {
		t.Errorf("read %v while the child ran; it used at least 60ms and %v in all", used.Total, total)
	}
	if sum := used.User + used.System; sum > total+2*tick {
		t.Errorf("user and system %v, but %v in all", sum, total)
	}
	if !slices.Equal(AllowedCPUs(), cpus) {
		t.Errorf("this process may now use %v only", AllowedCPUs())
	}
}
