package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// sums is the name of the file with checksums in the format of sha256sum -c.
const sums = "SHA256SUMS"

// release writes all files for the platforms into out, and a summary to w.
func release(ctx context.Context, src *Source, platforms []Platform, out string, w io.Writer) error {
	if err := makeEmpty(out); err != nil {
		return err
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
		name := fmt.Sprintf("polystalk-%s-%s-%s", src.Version, p.OS, p.Arch)
		if err := writeArchive(filepath.Join(out, name+".tar.gz"), stage.Archive(name, p), src.Date); err != nil {
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
	return writeSums(out, w)
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

// writeSums writes the checksums of the files in dir, and lists them with their sizes.
func writeSums(dir string, w io.Writer) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return bytes.Compare([]byte(a.Name()), []byte(b.Name())) })
	var text bytes.Buffer
	for _, e := range entries {
		f, err := os.Open(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		sum := sha256.New()
		size, err := io.Copy(sum, f)
		f.Close()
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%x  %s\n", sum.Sum(nil), e.Name())
		fmt.Fprintf(w, "%12d bytes  %s\n", size, e.Name())
	}
	return os.WriteFile(filepath.Join(dir, sums), text.Bytes(), 0o644)
}
