package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// sums is the name of the file with checksums in the format of sha256sum -c.
const sums = "SHA256SUMS"

// An order is what a release is to be.
type order struct {
	platforms []Platform
	out       string
	key       string // of gpg; empty: nothing is signed
	url       string // where the files will be; empty: downloads
}

// release writes all files that o asks for, and a summary to w.
func release(ctx context.Context, src *Source, o order, w io.Writer) error {
	out, platforms := o.out, o.platforms
	if err := makeEmpty(out); err != nil {
		return err
	}
	if o.key != "" { // before anything takes time
		if err := gpg(ctx, o.key, "--list-secret-keys", o.key); err != nil {
			return err
		}
	}
	work, err := os.MkdirTemp("", "polystalk-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	fmt.Fprintf(w, "polystalk %s of %s, for %v\n", src.Version, src.Day(), platforms)
	stage, err := gather(ctx, src, platforms, work)
	if err != nil {
		return err
	}
	var images []Platform
	for _, p := range platforms {
		name := archiveName(src, p)
		if err := writeArchive(filepath.Join(out, name), stage.Archive(strings.TrimSuffix(name, ".tar.gz"), p), src.Date); err != nil {
			return err
		}
		if p.OS != "linux" {
			continue
		}
		images = append(images, p)
		for _, f := range []Format{formatDeb, formatRPM} {
			if _, err := writePackage(ctx, stage, f, p, src.Date, work, out); err != nil {
				return err
			}
		}
	}
	if len(images) > 0 {
		if err := writeImage(ctx, stage, src, images, work, filepath.Join(out, "polystalk-"+src.Version+"-image.tar")); err != nil {
			return err
		}
	}
	if err := writeBill(stage, src, platforms, filepath.Join(out, "polystalk-"+src.Version+".spdx.json")); err != nil {
		return err
	}
	if err := writeFormula(src, platforms, o.url, out); err != nil {
		return err
	}
	if err := writeApt(out, src.Date); err != nil {
		return fmt.Errorf("the repository for apt: %w", err)
	}
	if err := writeDnf(out, src.Date); err != nil {
		return fmt.Errorf("the repository for dnf: %w", err)
	}
	if err := writeSums(out, w); err != nil {
		return err
	}
	if o.key == "" {
		fmt.Fprintln(w, "nothing is signed: give SIGN=KEY to sign with a key of gpg")
		return nil
	}
	fmt.Fprintf(w, "signed with the key %s, which is in %s\n", o.key, keyFile)
	return sign(ctx, o.key, out)
}

// archiveName returns the name of the archive for p.
func archiveName(src *Source, p Platform) string {
	return fmt.Sprintf("polystalk-%s-%s-%s.tar.gz", src.Version, p.OS, p.Arch)
}

// makeEmpty makes the folder, or checks that it is empty: older files would seem to belong to this
// release.
func makeEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return os.MkdirAll(dir, 0o755)
	case err != nil:
		return err
	case len(entries) > 0:
		return fmt.Errorf("%s is not empty: remove what is in it, or give another -out", dir)
	}
	return nil
}

// writeSums writes the checksums of the files in dir, and lists them with their sizes. Repositories
// have checksums of their own.
func writeSums(dir string, w io.Writer) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return bytes.Compare([]byte(a.Name()), []byte(b.Name())) })
	var text bytes.Buffer
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		file, err := read(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%s  %s\n", file.SHA256, e.Name())
		fmt.Fprintf(w, "%12d bytes  %s\n", file.Size, e.Name())
	}
	return os.WriteFile(filepath.Join(dir, sums), text.Bytes(), 0o644)
}
