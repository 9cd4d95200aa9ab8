package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A Stage is a folder with the content of packages, archives and the image.
type Stage struct {
	Dir string
	src *Source
}

// An installedFile is a file that a package installs.
type installedFile struct {
	Path   string // absolute path on the target
	Source string // file on this machine
	Mode   os.FileMode
	Config bool // an upgrade keeps the administrator's changes
}

// vendored is the folder of third-party browser libraries with their licences.
const vendored = "router/http/console/vendor"

// gather builds the programs for the platforms and for this machine, which writes the texts. It
// collects everything below dir, which must exist.
func gather(ctx context.Context, src *Source, platforms []Platform, dir string) (*Stage, error) {
	s := &Stage{dir, src}
	hosts := platforms
	if !slices.Contains(platforms, hostPlatform) {
		hosts = append(slices.Clone(platforms), hostPlatform)
	}
	for _, p := range hosts {
		if err := os.MkdirAll(s.Programs(p), 0o755); err != nil {
			return nil, err
		}
		if err := buildPrograms(ctx, src, p, s.Programs(p)); err != nil {
			return nil, err
		}
	}
	for _, folder := range []string{"man", "gz", "doc"} {
		if err := os.Mkdir(filepath.Join(dir, folder), 0o755); err != nil {
			return nil, err
		}
	}
	if err := buildManuals(ctx, src, s.path("man")); err != nil {
		return nil, err
	}
	if err := writeCompletions(ctx, s.Programs(hostPlatform), s.path("share")); err != nil {
		return nil, err
	}
	return s, s.writeDocuments(ctx, platforms)
}

// Programs returns the folder of the programs for p.
func (s *Stage) Programs(p Platform) string { return s.path("programs", p.OS+"_"+p.Arch) }

func (s *Stage) path(names ...string) string {
	return filepath.Join(append([]string{s.Dir}, names...)...)
}

// root returns the path of a file in the sources.
func (s *Stage) root(name string) string { return filepath.Join(s.src.Root, filepath.FromSlash(name)) }

// writeDocuments writes the documents that are made from the sources, and compresses those that
// packages contain in compressed form.
func (s *Stage) writeDocuments(ctx context.Context, platforms []Platform) error {
	conf, err := s.configuration()
	if err != nil {
		return err
	}
	notices, err := s.notices(ctx, platforms)
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{
		"polystalkd.toml": conf, "NOTICES": notices,
		"copyright": s.copyright(), "changelog": s.changelog(), "lintian": lintianOverrides,
	} {
		if err := os.WriteFile(s.path("doc", name), text, 0o644); err != nil {
			return err
		}
	}
	compressed := []string{"doc/NOTICES", "doc/changelog"}
	manuals, err := filepath.Glob(s.path("man", "*"))
	if err != nil {
		return err
	}
	for _, m := range manuals {
		compressed = append(compressed, "man/"+filepath.Base(m))
	}
	for _, name := range compressed {
		if err := compress(s.path(filepath.FromSlash(name)), s.path("gz", path.Base(name)+".gz")); err != nil {
			return err
		}
	}
	return nil
}

// compress writes a compressed copy of a file, without its name and time.
func compress(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := z.Write(text); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return os.WriteFile(to, b.Bytes(), 0o644)
}

// journalKey is in the example configuration as a comment. An installed service needs it to keep
// its jobs.
const journalKey = "binlog-dir = \"/var/lib/polystalkd\"\n"

// configuration returns the example with every key, and with a journal.
func (s *Stage) configuration() ([]byte, error) {
	const example = "cmd/polystalkd/polystalkd.toml"
	text, err := os.ReadFile(s.root(example))
	if err != nil {
		return nil, err
	}
	if bytes.Count(text, []byte("\n#"+journalKey)) != 1 {
		return nil, fmt.Errorf("%s does not have exactly one line %q: the packages' configuration is made from it", example, "#"+strings.TrimSpace(journalKey))
	}
	return bytes.Replace(text, []byte("\n#"+journalKey), []byte("\n"+journalKey), 1), nil
}

// A Format is the format of a package.
type Format string

// The formats.
const (
	formatDeb Format = "deb"
	formatRPM Format = "rpm"
)

// unitFiles are the unit files of systemd.
var unitFiles = []string{"polystalkd.service", "polystalkd.socket", "polystalkd-http.socket", "polystalkd-gearman.socket"}

// Package returns the files that a package for p installs.
func (s *Stage) Package(f Format, p Platform) []installedFile {
	var files []installedFile
	add := func(to, from string, mode os.FileMode) {
		files = append(files, installedFile{Path: to, Source: from, Mode: mode})
	}
	for _, name := range programNames {
		add("/usr/bin/"+name, filepath.Join(s.Programs(p), name), 0o755)
	}
	for _, page := range manuals {
		section := page[strings.LastIndexByte(page, '.')+1:]
		add("/usr/share/man/man"+section+"/"+page+".gz", s.path("gz", page+".gz"), 0o644)
	}
	for _, c := range completions {
		to := "/usr/share/" + c.Path
		if f == formatRPM && c.Shell == "zsh" {
			to = "/usr/share/zsh/site-functions/_polystalk" // Debian reserves that folder for the administrator
		}
		add(to, s.path("share", filepath.FromSlash(c.Path)), 0o644)
	}
	folder := "/usr/lib/systemd/system/"
	if f == formatDeb {
		folder = "/lib/systemd/system/" // the folder in which Debian's tools look for units
	}
	for _, unit := range unitFiles {
		add(folder+unit, s.root("cmd/polystalkd/systemd/"+unit), 0o644)
	}
	add("/usr/lib/sysusers.d/polystalkd.conf", s.root("cmd/polystalkd/systemd/polystalkd.sysusers"), 0o644)
	files = append(files, installedFile{"/etc/polystalkd/polystalkd.toml", s.path("doc", "polystalkd.toml"), 0o644, true})
	const doc = "/usr/share/doc/polystalk/"
	add(doc+"README.md", s.root("README.md"), 0o644)
	add(doc+"NOTICES.gz", s.path("gz", "NOTICES.gz"), 0o644)
	if f == formatDeb {
		add(doc+"copyright", s.path("doc", "copyright"), 0o644)
		add(doc+"changelog.gz", s.path("gz", "changelog.gz"), 0o644)
		add("/usr/share/lintian/overrides/polystalk", s.path("doc", "lintian"), 0o644)
	} else {
		add("/usr/share/licenses/polystalk/LICENSE", s.root("LICENSE"), 0o644)
	}
	return files
}

// manuals are the pages that cmd/manual writes.
var manuals = []string{"polystalk.1", "polystalkd.8", "polystalkd.toml.5"}

// Archive returns the entries of an archive for p, below the given folder.
func (s *Stage) Archive(folder string, p Platform) []tarEntry {
	var entries []tarEntry
	add := func(to, from string, mode int64) {
		entries = append(entries, tarEntry{Name: folder + "/" + to, Source: from, Mode: mode})
	}
	for _, name := range programNames {
		add("bin/"+name, filepath.Join(s.Programs(p), name), 0o755)
	}
	for _, page := range manuals {
		add("share/man/man"+page[strings.LastIndexByte(page, '.')+1:]+"/"+page, s.path("man", page), 0o644)
	}
	for _, c := range completions {
		add("share/"+c.Path, s.path("share", filepath.FromSlash(c.Path)), 0o644)
	}
	if p.OS == "linux" {
		for _, unit := range append(slices.Clone(unitFiles), "polystalkd.sysusers") {
			add("systemd/"+unit, s.root("cmd/polystalkd/systemd/"+unit), 0o644)
		}
	}
	add("polystalkd.toml", s.path("doc", "polystalkd.toml"), 0o644)
	add("README.md", s.root("README.md"), 0o644)
	add("LICENSE", s.root("LICENSE"), 0o644)
	add("NOTICES", s.path("doc", "NOTICES"), 0o644)
	return entries
}

// Notices returns the file with the licences of libraries, Licence the file with ours.
func (s *Stage) Notices() string { return s.path("doc", "NOTICES") }
func (s *Stage) Licence() string { return s.root("LICENSE") }
