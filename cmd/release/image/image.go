// Package image writes an image of the server for containers, as an OCI layout in one
// archive.
//
// go-containerregistry writes layers, configurations and the index without a daemon and
// without root. Nothing is in the image but the programs, an account, licences and an empty
// directory for the journal: no shell, no library, nothing that would have to be updated
// beside polystalk.
package image

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

	"polystalk/cmd/release/archive"
	"polystalk/cmd/release/build"
	"polystalk/cmd/release/content"
	"polystalk/cmd/release/source"
)

// owner is the user and group of the process, and of the journal's directory. It has the
// number that others' images without root use, so that a volume can be shared with them.
const owner = 65532

// state is the journal's directory, a volume.
const state = "/var/lib/polystalkd"

// Write writes the image for the platforms of Linux to the file name, with the version as
// its reference. work is a folder for what is needed meanwhile.
func Write(ctx context.Context, stage *content.Stage, src *source.Source, platforms []build.Platform, work, name string) error {
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
	var entries []archive.Entry
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		entries = append(entries, archive.Entry{Name: filepath.ToSlash(rel), Source: path, Mode: 0o644})
		return err
	})
	if err != nil {
		return err
	}
	return archive.WriteFile(name, entries, src.Date)
}

// forPlatform is the image for one.
func forPlatform(stage *content.Stage, src *source.Source, p build.Platform, work string) (v1.Image, error) {
	entries, err := entries(stage, p, work)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		r, w := io.Pipe()
		go func() { w.CloseWithError(archive.Write(w, entries, src.Date)) }()
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
	cf.Config = config(src)
	return mutate.ConfigFile(img, cf)
}

// config is how a container runs. Everything is told by variables, which a health check
// sees as well: the arguments of the process it does not.
func config(src *source.Source) v1.Config {
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
		User:       fmt.Sprintf("%d:%d", owner, owner),
		Entrypoint: []string{"/usr/bin/polystalkd"},
		Env: []string{
			"PATH=/usr/bin",
			"POLYSTALKD_BINLOG_DIR=" + state,
			"POLYSTALKD_HTTP=127.0.0.1:11380", // of the container: who wants it outside says who may
		},
		ExposedPorts: map[string]struct{}{"11300/tcp": {}, "11380/tcp": {}, "4730/tcp": {}},
		Volumes:      map[string]struct{}{state: {}},
		WorkingDir:   "/",
		Labels:       labels,
		Healthcheck: &v1.HealthConfig{
			Test:     []string{"CMD", "/usr/bin/polystalkd", "--probe", "/readyz"},
			Interval: 30 * time.Second, Timeout: 10 * time.Second, Retries: 3,
			StartPeriod: 10 * time.Minute, // a large journal takes its time to be read
		},
	}
}

// entries are the files of the image.
func entries(stage *content.Stage, p build.Platform, work string) ([]archive.Entry, error) {
	all := []archive.Entry{
		{Name: state[1:], Mode: 0o700, Owner: owner},
		{Name: "tmp", Mode: 0o1777},
		{Name: "usr/share/doc/polystalk/NOTICES", Source: stage.Notices(), Mode: 0o644},
		{Name: "usr/share/doc/polystalk/LICENSE", Source: stage.Licence(), Mode: 0o644},
	}
	for _, name := range build.Names {
		all = append(all, archive.Entry{Name: "usr/bin/" + name, Source: filepath.Join(stage.Programs(p), name), Mode: 0o755})
	}
	for name, text := range map[string]string{
		"passwd": fmt.Sprintf("root:x:0:0:root:/:/sbin/nologin\npolystalkd:x:%d:%d:polystalkd:%s:/sbin/nologin\n", owner, owner, state),
		"group":  fmt.Sprintf("root:x:0:\npolystalkd:x:%d:\n", owner),
	} {
		file := filepath.Join(work, name)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return nil, err
		}
		all = append(all, archive.Entry{Name: "etc/" + name, Source: file, Mode: 0o644})
	}
	return all, nil
}
