package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// layoutOf returns a release's image as a folder.
func layoutOf(t *testing.T, m made) string {
	t.Helper()
	dir := t.TempDir()
	output(t, "tar", "-C", dir, "-xf", m.the(t, "*-image.tar"))
	return dir
}

// blob reads a document of a layout by its digest.
func blob(t *testing.T, layout, digest string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(layout, "blobs", strings.Replace(digest, ":", "/", 1)))
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	must(t, err)
}

// A manifest has the tested parts of a manifest or an index.
type manifest struct {
	Manifests []struct {
		Digest      string
		Annotations map[string]string
		Platform    struct{ OS, Architecture string }
	}
	Config struct{ Digest string }
	Layers []struct{ Digest string }
}

// health returns the command of the image's health check. OCI tools ignore it; Docker does not.
func health(t *testing.T, m made) []string {
	t.Helper()
	layout := layoutOf(t, m)
	text, err := os.ReadFile(filepath.Join(layout, "index.json"))
	must(t, err)
	var top, index, img manifest
	if err := json.Unmarshal(text, &top); err != nil || len(top.Manifests) != 1 {
		t.Fatalf("%v: %s", err, text)
	}
	if got := top.Manifests[0].Annotations["org.opencontainers.image.ref.name"]; got != m.src.Version {
		t.Errorf("the image is named %q", got)
	}
	blob(t, layout, top.Manifests[0].Digest, &index)
	if len(index.Manifests) != len(here) || index.Manifests[0].Platform.OS != here[0].OS || index.Manifests[0].Platform.Architecture != here[0].Arch {
		t.Fatalf("%+v", index)
	}
	blob(t, layout, index.Manifests[0].Digest, &img)
	var config struct {
		Config struct{ Healthcheck struct{ Test []string } }
	}
	blob(t, layout, img.Config.Digest, &config)
	if len(img.Layers) != 1 {
		t.Errorf("%d layers", len(img.Layers))
	}
	return config.Config.Healthcheck.Test
}

func TestImageIsInspected(t *testing.T) {
	skopeo := tool(t, "skopeo", "skopeo")
	m := first(t)
	at := "oci:" + layoutOf(t, m) + ":" + m.src.Version
	var got struct {
		Labels           map[string]string
		Architecture, Os string
		Created          time.Time
		Env              []string
	}
	must(t, json.Unmarshal([]byte(output(t, skopeo, "inspect", at)), &got))
	if got.Os != "linux" || got.Architecture != here[0].Arch || got.Created.Unix() != 1700000000 ||
		got.Labels["org.opencontainers.image.version"] != m.src.Version || got.Labels["org.opencontainers.image.revision"] != m.src.Revision ||
		!slices.Contains(got.Env, "POLYSTALKD_BINLOG_DIR=/var/lib/polystalkd") {
		t.Errorf("%+v", got)
	}
	var config struct {
		Config struct {
			User       string
			Volumes    map[string]any
			Entrypoint []string
		}
	}
	must(t, json.Unmarshal([]byte(output(t, skopeo, "inspect", "--config", at)), &config))
	if c := config.Config; c.User != "65532:65532" || c.Volumes["/var/lib/polystalkd"] == nil || !slices.Equal(c.Entrypoint, []string{"/usr/bin/polystalkd"}) {
		t.Errorf("%+v", c)
	}
}

// TestImageServes: its programs run without other files, as its user, and its health check finds a
// healthy server, and later none.
func TestImageServes(t *testing.T) {
	skopeo, umoci := tool(t, "skopeo", "skopeo"), tool(t, "umoci", "umoci")
	if os.Getuid() != 0 {
		t.Skip("no root: the image is run as its own user, in its own root")
	}
	m := first(t)
	check := health(t, m)
	if !slices.Equal(check, []string{"CMD", "/usr/bin/polystalk", "health"}) {
		t.Errorf("the health check is %q", check)
	}
	// umoci needs one platform; skopeo selects this machine's.
	dir := t.TempDir()
	output(t, skopeo, "copy", "oci:"+layoutOf(t, m)+":"+m.src.Version, "oci:"+dir+"/one:x")
	output(t, umoci, "unpack", "--image", dir+"/one:x", dir+"/bundle")
	root := dir + "/bundle/rootfs"
	for path, want := range map[string]os.FileMode{"/var/lib/polystalkd": os.ModeDir | 0o700, "/tmp": os.ModeDir | os.ModeSticky | 0o777, "/usr/bin/polystalkd": 0o755} {
		if info, err := os.Stat(root + path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	inside := func(args ...string) *exec.Cmd {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = "/"
		cmd.Env = []string{"POLYSTALKD_BINLOG_DIR=/var/lib/polystalkd", "POLYSTALKD_HTTP=unix:/tmp/http.sock", "POLYSTALK_SERVER=unix:/tmp/http.sock"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
		return cmd
	}
	s := start(t, inside("/usr/bin/polystalkd", "--log-format", "json", "-l", "127.0.0.1", "-p", "0"))
	if got := s.talk("put 0 0 60 1\r\nx\r\n", 1); got != "INSERTED 1\r\n" {
		t.Errorf("%q", got)
	}
	if out, err := inside(check[1:]...).CombinedOutput(); err != nil || !strings.Contains(string(out), "serving") {
		t.Errorf("the health check: %v, %s", err, out)
	}
	s.stop()
	if out, err := inside(check[1:]...).CombinedOutput(); err == nil || strings.Count(string(out), "\n") != 1 {
		t.Errorf("the health check, once the server is gone: %s", out)
	}
}
