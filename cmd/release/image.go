package main

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// imageUser is the user and group of the process and of the journal's directory. Other images
// without root use the same number, so they can share a volume.
const imageUser = 65532

// journalDir is the journal's directory, a volume.
const journalDir = "/var/lib/polystalkd"

// writeImage writes the image for the Linux platforms to the file name, with the version as its
// reference. work is a folder for temporary files.
func writeImage(ctx context.Context, stage *Stage, src *Source, platforms []Platform, work, name string) error {
	var index v1.ImageIndex = mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range platforms {
		if err := ctx.Err(); err != nil {
			return err
		}
		img, err := forPlatform(stage, src, p, work)
		if err != nil {
			return fmt.Errorf("the image for %s: %w", p, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.OS, Architecture: p.Arch}},
		})
	}
	// Tools find the index of all platforms by its reference in the layout's own index.
	named := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{
		Add: index, Descriptor: v1.Descriptor{Annotations: map[string]string{"org.opencontainers.image.ref.name": src.Version}},
	})
	dir := filepath.Join(work, "layout")
	if _, err := layout.Write(dir, named); err != nil {
		return fmt.Errorf("the image's layout: %w", err)
	}
	var imageEntries []tarEntry
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		imageEntries = append(imageEntries, tarEntry{Name: filepath.ToSlash(rel), Source: path, Mode: 0o644})
		return err
	})
	if err != nil {
		return err
	}
	return writeArchive(name, imageEntries, src.Date)
}

// forPlatform returns the image for one platform.
func forPlatform(stage *Stage, src *Source, p Platform, work string) (v1.Image, error) {
	imageEntries, err := imageEntries(stage, p, work)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		r, w := io.Pipe()
		go func() { w.CloseWithError(writeTar(w, imageEntries, src.Date)) }()
		return r, nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.Append(img, mutate.Addendum{
		Layer: layer, MediaType: types.OCILayer,
		History: v1.History{Created: v1.Time{Time: src.Date}, CreatedBy: "polystalk's make release", Comment: "polystalk " + src.Version},
	})
	if err != nil {
		return nil, err
	}
	cf, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	cf = cf.DeepCopy()
	cf.OS, cf.Architecture, cf.Created = p.OS, p.Arch, v1.Time{Time: src.Date}
	cf.Config = imageConfig(src)
	return mutate.ConfigFile(img, cf)
}

// imageConfig returns the configuration of containers. All settings are variables, because a health
// check sees variables but not the arguments of the process.
func imageConfig(src *Source) v1.Config {
	labels := map[string]string{
		"org.opencontainers.image.title":       "polystalk",
		"org.opencontainers.image.description": "job server that speaks beanstalkd's and Gearman's protocols",
		"org.opencontainers.image.version":     src.Version,
		"org.opencontainers.image.created":     src.Date.Format(time.RFC3339),
		"org.opencontainers.image.licenses":    "MIT",
	}
	if src.Revision != "" {
		labels["org.opencontainers.image.revision"] = src.Revision
	}
	return v1.Config{
		User:       fmt.Sprintf("%d:%d", imageUser, imageUser),
		Entrypoint: []string{"/usr/bin/polystalkd"},
		Env: []string{
			"PATH=/usr/bin",
			"POLYSTALKD_BINLOG_DIR=" + journalDir,
			"POLYSTALKD_HTTP=127.0.0.1:11380", // only inside the container: serving it outside needs tokens
		},
		ExposedPorts: map[string]struct{}{"11300/tcp": {}, "11380/tcp": {}, "4730/tcp": {}},
		Volumes:      map[string]struct{}{journalDir: {}},
		WorkingDir:   "/",
		Labels:       labels,
		Healthcheck: &v1.HealthConfig{
			Test:     []string{"CMD", "/usr/bin/polystalk", "health"},
			Interval: 30 * time.Second, Timeout: 10 * time.Second, Retries: 3,
			StartPeriod: 10 * time.Minute, // reading a large journal takes time
		},
	}
}

// imageEntries returns the files of the image.
func imageEntries(stage *Stage, p Platform, work string) ([]tarEntry, error) {
	all := []tarEntry{
		{Name: journalDir[1:], Mode: 0o700, Owner: imageUser},
		{Name: "tmp", Mode: 0o1777},
		{Name: "usr/share/doc/polystalk/NOTICES", Source: stage.Notices(), Mode: 0o644},
		{Name: "usr/share/doc/polystalk/LICENSE", Source: stage.Licence(), Mode: 0o644},
	}
	for _, name := range programNames {
		all = append(all, tarEntry{Name: "usr/bin/" + name, Source: filepath.Join(stage.Programs(p), name), Mode: 0o755})
	}
	for name, text := range map[string]string{
		"passwd": fmt.Sprintf("root:x:0:0:root:/:/sbin/nologin\npolystalkd:x:%d:%d:polystalkd:%s:/sbin/nologin\n", imageUser, imageUser, journalDir),
		"group":  fmt.Sprintf("root:x:0:\npolystalkd:x:%d:\n", imageUser),
	} {
		file := filepath.Join(work, name)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return nil, err
		}
		all = append(all, tarEntry{Name: "etc/" + name, Source: file, Mode: 0o644})
	}
	return all, nil
}
