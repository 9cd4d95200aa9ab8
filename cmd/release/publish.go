package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// downloads is where a formula looks for archives, unless the releaser says otherwise. The address
// is in a domain for examples.
const downloads = "https://polystalk.example/releases"

// writeFormula writes Homebrew's formula for the archives in out, which will be served below url.
func writeFormula(src *Source, platforms []Platform, url, out string) error {
	archives := make(map[string][]map[string]string) // by the system's name in a formula
	for _, p := range platforms {
		system := map[string]string{"darwin": "macos", "linux": "linux"}[p.OS]
		f, err := read(filepath.Join(out, archiveName(src, p)))
		if err != nil {
			return err
		}
		archives[system] = append(archives[system], map[string]string{
			"CPU": map[string]string{"amd64": "intel", "arm64": "arm"}[p.Arch], "Name": f.Name, "SHA256": f.SHA256,
		})
	}
	if url == "" {
		url = downloads + "/" + src.Version
	}
	return write(filepath.Join(out, "polystalk.rb"), map[string]any{"URL": strings.TrimSuffix(url, "/"), "Version": src.Version, "Systems": archives})
}

// keyFile has the public key of the signatures.
const keyFile = "polystalk.asc"

// gpg runs the releaser's gpg.
func gpg(ctx context.Context, key string, args ...string) error {
	cmd := exec.CommandContext(ctx, "gpg", append([]string{"--quiet", "--yes", "--armor", "--local-user", key}, args...)...)
	cmd.Stdin = os.Stdin
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("signing with the key %q: %w: %s: give SIGN a key that gpg --list-secret-keys shows", key, err, strings.TrimSpace(string(said)))
	}
	return nil
}

// sign signs the checksums and the indexes of the repositories in out, and writes the public key
// beside them.
func sign(ctx context.Context, key, out string) error {
	for _, s := range [][3]string{
		{"--detach-sign", sums, sums + ".asc"},
		{"--detach-sign", aptDist + "/Release", aptDist + "/Release.gpg"},
		{"--clear-sign", aptDist + "/Release", aptDist + "/InRelease"},
		{"--detach-sign", dnfData + "/repomd.xml", dnfData + "/repomd.xml.asc"},
	} {
		name := filepath.Join(out, s[1])
		if _, err := os.Stat(name); os.IsNotExist(err) {
			continue // no platform has such packages
		}
		if err := gpg(ctx, key, "--output", filepath.Join(out, s[2]), s[0], name); err != nil {
			return err
		}
	}
	return gpg(ctx, key, "--output", filepath.Join(out, keyFile), "--export", key)
}
