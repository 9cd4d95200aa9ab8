package config

import (
	"bufio"
	"bytes"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// memoryUnknown is taken for the machine's memory, in bytes, where nothing tells it.
const memoryUnknown = 1 << 30

// machineMemory is how much memory, in bytes, this process may come to: that of the
// machine, or the limit of its control groups, of either version, if that is less.
// root is the file system from / on.
func machineMemory(root fs.FS) int64 {
	least := int64(memoryUnknown)
	if n, ok := memTotal(root); ok {
		least = n
	}
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return least
	}
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		at, file := "", ""
		switch {
		case fields[0] == "0" && fields[1] == "":
			at, file = "sys/fs/cgroup", "memory.max"
		case strings.Contains(","+fields[1]+",", ",memory,"):
			at, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		// What holds for a group holds for those in it. Seen from inside of a
		// container the path may be the host's: then only the top is there.
		for group := path.Clean("/" + fields[2]); ; group = path.Dir(group) {
			if n, ok := readLimit(root, path.Join(at, group, file)); ok {
				least = min(least, n)
			}
			if group == "/" {
				break
			}
		}
	}
	return least
}

// readLimit reads a limit in bytes; "max" and what is no number is none.
func readLimit(root fs.FS, name string) (int64, bool) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64)
	return n, err == nil && n > 0
}

// memTotal is the machine's memory.
func memTotal(root fs.FS) (int64, bool) {
	text, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return 0, false
	}
	for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
		if fields := strings.Fields(s.Text()); len(fields) == 3 && fields[0] == "MemTotal:" {
			n, err := strconv.ParseInt(fields[1], 10, 64)
			return n << 10, err == nil && n > 0
		}
	}
	return 0, false
}
