package binlog

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A File is one file of a log.
type File struct {
	Path   string
	Number uint64 // N of binlog.N
	Size   int64  // bytes, when the directory was read
}

// Files lists the files of the log in dir in the order of writing, which is by number; gaps are
// normal. It ignores names other than binlog. and a decimal from 1 without leading zeros, as
// beanstalkd writes them. If a file with such a name is not a regular file, that is an error, since
// the log without it would be incomplete.
func Files(dir string) ([]File, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list the log: %w", err)
	}
	var files []File
	var faults []error
	for _, e := range entries {
		number, ok := fileNumber(e.Name())
		if !ok {
			continue
		}
		path := filepath.Join(dir, e.Name())
		info, err := e.Info() // of a link itself, not of its target
		switch {
		case err != nil:
			faults = append(faults, fmt.Errorf("list the log: %w", err))
		case !info.Mode().IsRegular():
			faults = append(faults, fmt.Errorf("%s is not a regular file: %v", path, info.Mode()))
		default:
			files = append(files, File{path, number, info.Size()})
		}
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Number, b.Number) })
	return files, nil
}

// fileNumber returns N of the name binlog.N.
func fileNumber(name string) (n uint64, ok bool) {
	digits, ok := strings.CutPrefix(name, "binlog.")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	return n, err == nil && n > 0 && strconv.FormatUint(n, 10) == digits
}
