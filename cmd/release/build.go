package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// A Platform is an operating system and architecture to build for.
type Platform struct{ OS, Arch string }

func (p Platform) String() string { return p.OS + "/" + p.Arch }

// allPlatforms are the platforms of a release.
var allPlatforms = []Platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "arm64"}}

// hostPlatform is this machine's platform.
var hostPlatform = Platform{runtime.GOOS, runtime.GOARCH}

// parsePlatforms reads a list separated by commas. An empty list means all.
func parsePlatforms(list string) ([]Platform, error) {
	if list == "" {
		return allPlatforms, nil
	}
	var chosen []Platform
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(allPlatforms, func(p Platform) bool { return p.String() == name })
		if i < 0 {
			return nil, fmt.Errorf("polystalk is not released for the platform %q: give some of %v, with commas between them", name, allPlatforms)
		}
		if !slices.Contains(chosen, allPlatforms[i]) {
			chosen = append(chosen, allPlatforms[i])
		}
	}
	return chosen, nil
}

// programNames are the names of the programs.
var programNames = []string{"polystalk", "polystalkd"}

// buildPrograms builds both programs for p into dir, which must exist.
func buildPrograms(ctx context.Context, src *Source, p Platform, dir string) error {
	var packages []string
	for _, name := range programNames {
		packages = append(packages, "./cmd/"+name)
	}
	if err := compile(ctx, src, p, dir+string(filepath.Separator), packages...); err != nil {
		return err
	}
	for _, name := range programNames {
		if err := checkRevision(src, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// checkRevision checks that a program contains the commit of its sources. The go command omits the
// commit without an error if it does not find the repository.
func checkRevision(src *Source, program string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	told := ""
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			told = s.Value
		}
	}
	if told != src.Revision {
		return fmt.Errorf("the go command has put the commit %q into %s, which is of %q: in a worktree of git it does not find the repository; make the release in a clone",
			told, filepath.Base(program), src.Revision)
	}
	return nil
}

// compile builds packages of the sources.
func compile(ctx context.Context, src *Source, p Platform, out string, packages ...string) error {
	ldflags := "-s -w"
	if src.Stamp != "" {
		ldflags += " -X polystalk/cmd/internal/program.stamped=" + src.Stamp
	}
	args := []string{"build", "-mod=readonly", "-trimpath", fmt.Sprintf("-buildvcs=%t", src.Revision != ""), "-ldflags", ldflags, "-o", out}
	cmd := exec.CommandContext(ctx, "go", append(args, packages...)...)
	cmd.Dir = src.Root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.OS, "GOARCH="+p.Arch,
		"GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOEXPERIMENT=", "GOWORK=off", "GOFIPS140=off")
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building for %s: %w\n%s", p, err, bytes.TrimSpace(said))
	}
	return nil
}

// buildManuals writes the manual pages into dir, which must exist.
func buildManuals(ctx context.Context, src *Source, dir string) error {
	work, err := os.MkdirTemp("", "polystalk-manual-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	program := filepath.Join(work, "manual")
	if err := compile(ctx, src, hostPlatform, program, "./cmd/manual"); err != nil {
		return err
	}
	if said, err := exec.CommandContext(ctx, program, "-o", dir, "-date", src.Day()).CombinedOutput(); err != nil {
		return fmt.Errorf("writing the manuals: %w\n%s", err, bytes.TrimSpace(said))
	}
	return nil
}

// A completion is the completion script for one shell.
type completion struct {
	Shell string
	Path  string // path that the shell searches, below the folder share
}

// completions are the packaged completions.
var completions = []completion{
	{"bash", "bash-completion/completions/polystalk"},
	{"zsh", "zsh/vendor-completions/_polystalk"},
	{"fish", "fish/vendor_completions.d/polystalk.fish"},
}

// writeCompletions runs the polystalk in the folder programs, which is built for this machine. It
// writes each completion to its Path below dir.
func writeCompletions(ctx context.Context, programs, dir string) error {
	for _, c := range completions {
		cmd := exec.CommandContext(ctx, filepath.Join(programs, "polystalk"), "completion", c.Shell)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		script, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("writing the completion for %s: %w\n%s", c.Shell, err, bytes.TrimSpace(stderr.Bytes()))
		}
		path := filepath.Join(dir, filepath.FromSlash(c.Path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, script, 0o644); err != nil {
			return err
		}
	}
	return nil
}
