package again

import "os"

// self is this process's program, whatever has become of its file.
const self = "/proc/self/exe"

// program is the path of what this process runs: also where another program has been installed
// in its place since, which whoever did so will start when it is time. The file's own name is
// taken where it can be, since it is what ps shows.
func program() (string, error) {
	path, err := os.Readlink(self)
	if err != nil {
		return "", err
	}
	running, err := os.Stat(self)
	if err != nil {
		return "", err
	}
	if there, err := os.Stat(path); err != nil || !os.SameFile(there, running) {
		return self, nil
	}
	return path, nil
}
