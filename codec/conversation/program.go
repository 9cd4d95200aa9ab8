package conversation

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// Program returns the path of the program that go build makes of cmd/name in this module. All
// tests share the folder bin/test, so that each change of the sources is linked once. The server
// and the operators' program are built together, without cgo, like the released ones.
func Program(name string) (string, error) {
	dir, err := programs()
	return filepath.Join(dir, name), err
}

var programs = sync.OnceValues(func() (dir string, err error) {
	mod, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("building the programs: %w", err)
	}
	root := filepath.Dir(string(mod))
	dir = filepath.Join(root, "bin", "test")
	// Without buildvcs a commit that changes no source links nothing again.
	build := exec.Command("go", "build", "-buildvcs=false", "-o", dir+string(filepath.Separator), "./cmd/polystalkd", "./cmd/polystalk")
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the programs: %w\n%s", err, out)
	}
	return dir, nil
})
