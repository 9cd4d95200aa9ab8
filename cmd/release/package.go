package main

import (
	"context"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

//go:embed scripts/*.sh
var scripts embed.FS

const description = `job server that speaks beanstalkd's and Gearman's protocols
Producers put jobs into named tubes; workers reserve, run and delete them; a
job that is not finished within its time to run goes back to its tube.
polystalkd speaks beanstalkd's protocol byte for byte, and Gearman's beside it
over the same tubes, on every core of the machine; it keeps jobs in a journal.
polystalk is the operators' program beside it.`

// writePackage writes a package for p into dir, and returns its name. work is a folder for
// temporary files.
func writePackage(ctx context.Context, stage *Stage, f Format, p Platform, date time.Time, work, dir string) (name string, err error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	var packager nfpm.PackagerWithExtension = deb.Default
	if f == formatRPM {
		packager = rpm.DefaultRPM
	}
	info, err := packageInfo(stage, f, p, date, work)
	if err != nil {
		return "", err
	}
	if err := nfpm.PrepareForPackager(info, string(f)); err != nil {
		return "", fmt.Errorf("%s for %s: %w", f, p, err)
	}
	name = packager.ConventionalFileName(info)
	file, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return "", err
	}
	defer func() {
		if closed := file.Close(); err == nil {
			err = closed
		}
	}()
	if err := packager.Package(info, file); err != nil {
		return "", fmt.Errorf("%s for %s: %w", f, p, err)
	}
	return name, nil
}

// packageInfo returns the metadata and content of a package.
func packageInfo(stage *Stage, f Format, p Platform, date time.Time, work string) (*nfpm.Info, error) {
	info := &nfpm.Info{
		Name: "polystalk", Arch: p.Arch, Platform: p.OS,
		Version: stage.PackageVersion(), VersionSchema: "none",
		Section: "net", Priority: "optional", Maintainer: maintainer,
		Description: description, License: "MIT", MTime: date, DisableGlobbing: true,
	}
	info.Umask = 0o022
	if f == formatRPM {
		summary, text, _ := strings.Cut(description, "\n")
		info.Description, info.Release = text, "1" // RPM requires a release
		info.RPM = nfpm.RPM{Summary: summary, BuildHost: "polystalk", Compression: "zstd", Packager: maintainer}
		info.Depends = []string{"systemd"}
	} else {
		info.Deb.Compression = "xz"
		info.Depends = []string{"init-system-helpers (>= 1.54~)", "systemd | systemd-standalone-sysusers | systemd-sysusers"}
	}
	for _, file := range stage.Package(f, p) {
		c := &files.Content{
			Source: file.Source, Destination: file.Path,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: file.Mode, MTime: date},
		}
		if file.Config {
			c.Type = files.TypeConfigNoReplace
		}
		if f == formatRPM && strings.HasPrefix(file.Path, "/usr/share/licenses/") {
			c.Type = files.TypeRPMLicense
		}
		info.Contents = append(info.Contents, c)
	}
	return info, writeScripts(info, f, work)
}

// writeScripts writes the scripts to the place where nfpm reads them.
func writeScripts(info *nfpm.Info, f Format, work string) error {
	for name, to := range map[string]*string{
		"postinstall": &info.Scripts.PostInstall, "preremove": &info.Scripts.PreRemove, "postremove": &info.Scripts.PostRemove,
	} {
		file := string(f) + "-" + name + ".sh"
		text, err := scripts.ReadFile("scripts/" + file)
		if err != nil {
			return err
		}
		*to = filepath.Join(work, file)
		if err := os.WriteFile(*to, text, 0o755); err != nil {
			return err
		}
	}
	return nil
}
