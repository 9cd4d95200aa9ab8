package program

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// semantic is semver.org's grammar without the rule about leading zeros after the three numbers.
var semantic = regexp.MustCompile(`^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)

func TestVersionIsSemantic(t *testing.T) {
	if !semantic.MatchString(Version) || strings.TrimSpace(file) != Version {
		t.Errorf("the version is %q, the file holds %q", Version, file)
	}
}

// TestStampedVersionIsSaid: both programs print a stamped version. The linker does not complain about
// -X for a variable that does not exist.
func TestStampedVersionIsSaid(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	dir := t.TempDir()
	const stamp = "7.8.9-rc.1+modified"
	build := exec.Command("go", "build", "-ldflags", "-X polystalk/cmd/internal/program.stamped="+stamp, "-o", dir, "polystalk/cmd/polystalk", "polystalk/cmd/polystalkd")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // like make build
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range []string{"polystalk", "polystalkd"} {
		out, err := exec.Command(filepath.Join(dir, name), "--version").Output()
		if err != nil || !strings.HasPrefix(string(out), name+" "+stamp+" ") {
			t.Errorf("%s: %q, %v", name, out, err)
		}
	}
}
