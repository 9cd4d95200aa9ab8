package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
)

// Info returns the build information of a program.
func (s *Stage) Info(p Platform, name string) (*debug.BuildInfo, error) {
	return buildinfo.ReadFile(filepath.Join(s.Programs(p), name))
}

// licence matches the names of files with licences and notices.
var licence = regexp.MustCompile(`(?i)^(licen[sc]e|copying|notice|unlicense|patents)([-._].*)?$`)

// notices returns the licences of third-party code in the programs, as most licences require: of Go
// and its library, of modules, and of browser libraries.
func (s *Stage) notices(ctx context.Context, platforms []Platform) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "polystalk %s holds works of others, under the licences below.\n", s.src.Version)
	goroot, err := s.goCommand(ctx, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	if err := notice(&b, "Go, with its library", strings.TrimSpace(string(goroot))); err != nil {
		return nil, err
	}
	modules, err := s.modules(platforms)
	if err != nil {
		return nil, err
	}
	dirs, err := s.moduleDirs(ctx, modules)
	if err != nil {
		return nil, err
	}
	for _, path := range slices.Sorted(maps.Keys(modules)) {
		if err := notice(&b, path+" "+modules[path], dirs[path]); err != nil {
			return nil, err
		}
	}
	text, err := os.ReadFile(s.root(vendored + "/LICENSES"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return b.Bytes(), nil // nothing is sent to browsers
	case err != nil:
		return nil, err
	}
	fmt.Fprintf(&b, "\n==== %s\n\n%s", vendored, text)
	return b.Bytes(), nil
}

// modules returns the versions of the modules in any of the programs, by path.
func (s *Stage) modules(platforms []Platform) (map[string]string, error) {
	all := make(map[string]string)
	for _, p := range platforms {
		for _, name := range programNames {
			info, err := s.Info(p, name)
			if err != nil {
				return nil, err
			}
			for _, m := range info.Deps {
				if m.Replace != nil {
					return nil, fmt.Errorf("%s is replaced by %s in go.mod: a release must be built from public modules", m.Path, m.Replace.Path)
				}
				all[m.Path] = m.Version
			}
		}
	}
	return all, nil
}

// moduleDirs returns the folders of the modules.
func (s *Stage) moduleDirs(ctx context.Context, modules map[string]string) (map[string]string, error) {
	args := append([]string{"list", "-mod=readonly", "-m", "-json"}, slices.Sorted(maps.Keys(modules))...)
	out, err := s.goCommand(ctx, args...)
	if err != nil {
		return nil, err
	}
	dirs := make(map[string]string)
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var m struct{ Path, Version, Dir string }
		switch err := d.Decode(&m); {
		case errors.Is(err, io.EOF):
			return dirs, nil
		case err != nil:
			return nil, fmt.Errorf("reading what go list prints: %w", err)
		case m.Dir == "" || m.Version != modules[m.Path]:
			return nil, fmt.Errorf("%s %s was built in, and go list has %q of it in %q: run go mod download", m.Path, modules[m.Path], m.Version, m.Dir)
		}
		dirs[m.Path] = m.Dir
	}
}

// goCommand runs the go command in the sources.
func (s *Stage) goCommand(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = s.src.Root
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}

// notice writes the licences of one work. They are in dir.
func notice(b *bytes.Buffer, of, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	found := false
	for _, e := range entries {
		if e.IsDir() || !licence.MatchString(e.Name()) || filepath.Ext(e.Name()) == ".go" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		found = true
		fmt.Fprintf(b, "\n==== %s: %s\n\n%s\n", of, e.Name(), bytes.TrimRight(text, "\n"))
	}
	if !found {
		return fmt.Errorf("%s has no licence in %s: it must not be distributed without one", of, dir)
	}
	return nil
}
