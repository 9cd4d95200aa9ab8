package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/blakesmith/ar"
	rpmutils "github.com/sassoftware/go-rpmutils"
)

// Repositories are folders that a web server serves to apt and dnf.
const (
	aptDist = "apt/dists/stable"
	aptPool = "pool/main/p/polystalk"
	dnfData = "dnf/repodata"
)

//go:embed templates
var templateFiles embed.FS

var templates = template.Must(template.ParseFS(templateFiles, "templates/*"))

// A file is a file of a release with its size and checksum.
type file struct {
	Name   string
	Size   int64
	SHA256 string
}

// read returns the size and checksum of a file.
func read(name string) (file, error) {
	f, err := os.Open(name)
	if err != nil {
		return file{}, err
	}
	defer f.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, f)
	return file{filepath.Base(name), size, hex.EncodeToString(sum.Sum(nil))}, err
}

// write writes a file from the template of that name.
func write(name string, data any) error {
	var text strings.Builder
	if err := templates.ExecuteTemplate(&text, filepath.Base(name), data); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(text.String()), 0o644)
}

// each makes the folders, and calls f with each file in out that matches, after a link to it in
// the folder to.
func each(out, pattern, to string, folders []string, f func(name string, file file) error) error {
	names, err := filepath.Glob(filepath.Join(out, pattern))
	if err != nil || len(names) == 0 {
		return err
	}
	for _, folder := range append(folders, to) {
		if err := os.MkdirAll(filepath.Join(out, folder), 0o755); err != nil {
			return err
		}
	}
	for _, name := range names {
		file, err := read(name)
		if err == nil {
			err = os.Link(name, filepath.Join(out, to, file.Name))
		}
		if err == nil {
			err = f(name, file)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// writeApt writes a repository of the Debian packages in out. Source: Debian's RepositoryFormat.
func writeApt(out string, date time.Time) error {
	indexes := make(map[string]string) // by architecture
	err := each(out, "*.deb", "apt/"+aptPool, []string{aptDist}, func(name string, file file) error {
		control, err := readControl(name)
		_, arch, _ := strings.Cut(control, "\nArchitecture: ")
		arch, _, _ = strings.Cut(arch, "\n")
		indexes[arch] += fmt.Sprintf("%s\nFilename: %s/%s\nSize: %d\nSHA256: %s\n\n", control, aptPool, file.Name, file.Size, file.SHA256)
		return err
	})
	if err != nil || len(indexes) == 0 {
		return err
	}
	arches := slices.Sorted(maps.Keys(indexes))
	list := fmt.Appendf(nil, "Origin: polystalk\nLabel: polystalk\nSuite: stable\nCodename: stable\nDate: %s\nArchitectures: %s\nComponents: main\nSHA256:\n",
		date.UTC().Format(time.RFC1123), strings.Join(arches, " "))
	for _, arch := range arches {
		folder := "main/binary-" + arch
		name := filepath.Join(out, aptDist, folder, "Packages")
		err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(indexes[arch]), 0o644), compress(name, name+".gz"))
		if err != nil {
			return err
		}
		for _, end := range []string{"", ".gz"} {
			file, err := read(name + end)
			if err != nil {
				return err
			}
			list = fmt.Appendf(list, " %s %d %s/%s\n", file.SHA256, file.Size, folder, file.Name)
		}
	}
	return os.WriteFile(filepath.Join(out, aptDist, "Release"), list, 0o644)
}

// readControl returns the control file of a Debian package.
func readControl(deb string) (string, error) {
	f, err := os.Open(deb)
	if err != nil {
		return "", err
	}
	defer f.Close()
	members := ar.NewReader(f)
	for h := new(ar.Header); h.Name != "control.tar.gz" && h.Name != "control.tar.gz/"; {
		if h, err = members.Next(); err != nil {
			return "", fmt.Errorf("control.tar.gz: %w", err)
		}
	}
	z, err := gzip.NewReader(members)
	if err != nil {
		return "", err
	}
	files := tar.NewReader(z)
	for h := new(tar.Header); path.Base(h.Name) != "control"; {
		if h, err = files.Next(); err != nil {
			return "", fmt.Errorf("control: %w", err)
		}
	}
	text, err := io.ReadAll(files)
	return strings.TrimSpace(string(text)), err
}

// An rpmPackage has the metadata of a package.
type rpmPackage struct {
	*rpmutils.RpmHeader
	file
}

// Requires returns what the package needs, without what it needs of rpm itself.
func (p rpmPackage) Requires() ([]string, error) {
	names, err := p.GetStrings(rpmutils.REQUIRENAME)
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, "rpmlib(") })
	return slices.Compact(names), err
}

// writeDnf writes a repository of the RPM packages in out. Source: the files of createrepo.
func writeDnf(out string, date time.Time) error {
	var all []rpmPackage
	err := each(out, "*.rpm", "dnf", []string{dnfData}, func(name string, file file) error {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		h, err := rpmutils.ReadHeader(f)
		all = append(all, rpmPackage{h, file})
		return err
	})
	if err != nil || len(all) == 0 {
		return err
	}
	name := filepath.Join(out, dnfData, "primary.xml")
	if err := write(name, all); err != nil {
		return err
	}
	open, err1 := read(name)
	err2 := compress(name, name+".gz")
	packed, err3 := read(name + ".gz")
	if err := errors.Join(err1, err2, err3, os.Remove(name)); err != nil {
		return err
	}
	return write(filepath.Join(out, dnfData, "repomd.xml"), map[string]any{"Date": date.Unix(), "Open": open, "Packed": packed})
}
