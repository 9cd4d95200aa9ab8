package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"polystalk/cmd/polystalkd/fault"
	"polystalk/codec/tomlfile"
	"polystalk/router/access"
)

// A fileKey is a key of a file with its flag.
type fileKey struct {
	*tomlfile.Key

	flag  *pflag.Flag
	texts []string // for pflag.Set, one after the other
}

// FileFault returns an error of a file as a fault at its place.
func FileFault(e *tomlfile.Error) *fault.Fault {
	f := fault.New(fault.Usage, "%v", e)
	f.At(e.File, e.Line, e.Text)
	return f
}

// fault returns a fault at the place of the key. The message has the remedy.
func (k *fileKey) fault(format string, args ...any) *fault.Fault {
	return FileFault(k.Errorf(format, args...))
}

// listFiles returns the files of a configuration in reading order: path itself, then the
// files in the directory path.d with names that end in .toml, sorted by name. The directory
// need not exist.
func listFiles(path string) (files []string, err error) {
	files = []string{path}
	dir := path + ".d"
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return files, nil
	}
	if err != nil {
		return files, FileFault(tomlfile.Place{File: dir}.Errorf("its files cannot be listed (%v): let this user read the directory, or remove it", fault.Cause(err)))
	}
	for _, e := range entries { // by name
		if strings.HasSuffix(e.Name(), ".toml") && !strings.HasPrefix(e.Name(), ".") {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files, nil
}

// readFile reads one file and returns all problems that it finds.
func readFile(path string) ([]*fileKey, fault.Faults) {
	text, err := access.ReadFile(path, false)
	if err != nil {
		return nil, fault.Faults{FileFault(tomlfile.Place{File: path}.Errorf("it cannot be read (%v): give a file that this user may read", fault.Cause(err)))}
	}
	return parseTOML(path, text)
}

// parseTOML returns the keys of a file, and its faults in reading order.
func parseTOML(path string, text []byte) (keys []*fileKey, faults fault.Faults) {
	found, errs := tomlfile.Parse(path, text, func(p tomlfile.Place, name string) *tomlfile.Error {
		return p.Errorf("tables such as %q are not supported: write every key before any line in brackets, and leave the table out", name)
	})
	for _, k := range found {
		keys = append(keys, &fileKey{Key: k})
	}
	for _, e := range errs {
		faults = append(faults, FileFault(e))
	}
	return keys, faults
}
