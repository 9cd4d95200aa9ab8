package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// daemon builds the server's program, once.
var daemon = sync.OnceValues(func() (string, error) {
	path := filepath.Join(scratch, "daemon")
	out, err := exec.Command("go", "-C", filepath.Join("..", ".."), "build", "-o", path, "./cmd/polystalkd").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, out)
	}
	return path, err
})

// A container has the command line and the variables of a server. Its files are in a folder of this
// machine.
type container struct {
	dir       string
	args, env []string
}

// mounted are the paths of containers that lie below a container's folder here.
var mounted = []string{"/var/lib/polystalkd", "/etc/polystalkd", "/certs"}

// newContainer returns a container with the files that a server of that name may need.
func newContainer(t *testing.T, name string) *container {
	t.Helper()
	c := &container{dir: t.TempDir()}
	must(t, os.MkdirAll(c.dir+mounted[0], 0o700))
	cert, key := certificate(t, name)
	writeFile(t, c.dir, "/etc/polystalkd/access/access.toml", "[identity.ops]\ntokens = [\"sha256:"+strings.Repeat("ab", 32)+"\"]\nrole = \"admin\"\n")
	for _, f := range []string{"/etc/polystalkd/cluster/tls", "/certs/" + name} {
		writeFile(t, c.dir, f+".crt", cert)
		writeFile(t, c.dir, f+".key", key)
		writeFile(t, c.dir, filepath.Dir(f)+"/ca.crt", cert)
	}
	return c
}

// certificate returns a certificate for that name, signed by itself, and its key.
func certificate(t *testing.T, name string) (cert, key string) {
	t.Helper()
	pair, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &pair.PublicKey, pair)
	must(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(pair)
	must(t, err)
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return text("CERTIFICATE", der), text("PRIVATE KEY", secret)
}

// check returns what the server's --check-args says about the container.
func (c *container) check(t *testing.T) string {
	t.Helper()
	program, err := daemon()
	must(t, err)
	here := func(s string) string {
		for _, path := range mounted {
			s = strings.Replace(s, "="+path, "="+c.dir+path, 1)
		}
		return s
	}
	cmd := exec.Command(program, "--check-args")
	for _, a := range c.args {
		cmd.Args = append(cmd.Args, here(a))
	}
	for _, v := range c.env {
		cmd.Env = append(cmd.Env, here(v))
	}
	out, err := cmd.CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Errorf("%q: %v", cmd.Args, err)
	}
	return strings.ReplaceAll(string(out), c.dir, "")
}

// compose reads a file as docker compose does: unknown keys are errors.
func compose(t *testing.T, file, image string) (*types.Project, error) {
	t.Helper()
	return loader.LoadWithContext(context.Background(), types.ConfigDetails{
		WorkingDir: filepath.Dir(file), ConfigFiles: []types.ConfigFile{{Filename: file}}, Environment: types.Mapping{"POLYSTALK_IMAGE": image},
	}, func(o *loader.Options) { o.SetProjectName("polystalk", true) })
}

// containerOf returns the container of a service.
func containerOf(t *testing.T, s types.ServiceConfig) *container {
	t.Helper()
	c := newContainer(t, s.Name)
	c.env = imageConfig(&Source{}).Env
	for k, v := range s.Environment {
		c.env = append(c.env, k+"="+*v)
	}
	c.args = s.Command
	return c
}

// TestComposeFilesFitTogether: the server accepts the settings of each service, and each file that
// it reads is mounted.
func TestComposeFilesFitTogether(t *testing.T) {
	for file, servers := range map[string]int{"deploy/compose.yaml": 1, "deploy/compose-cluster.yaml": 3} {
		if _, err := compose(t, file, ""); err == nil || !strings.Contains(err.Error(), "set POLYSTALK_IMAGE to the image, as in ") {
			t.Errorf("%s without an image: %v", file, err)
		}
		p, err := compose(t, file, "registry.example.com/polystalk:0.1.0")
		must(t, err)
		if len(p.Services) != servers {
			t.Errorf("%s has %d services", file, len(p.Services))
		}
		var addresses []string
		published := make(map[string]bool)
		for name, s := range p.Services {
			if got := containerOf(t, s).check(t); got != "" {
				t.Errorf("%s: %s: %s", file, name, got)
			}
			for _, port := range s.Ports {
				if _, known := imageConfig(&Source{}).ExposedPorts[fmt.Sprintf("%d/tcp", port.Target)]; !known || port.HostIP != "127.0.0.1" || published[port.Published] {
					t.Errorf("%s: %s: port %+v", file, name, port)
				}
				published[port.Published] = true
			}
			var targets []string
			for _, v := range s.Volumes {
				targets = append(targets, v.Target)
				if _, known := p.Volumes[v.Source]; v.Type == types.VolumeTypeVolume && (!known || v.Target != journalDir) {
					t.Errorf("%s: %s: volume %+v", file, name, v)
				}
			}
			if want := []string{journalDir, "/certs"}[:min(servers, 2)]; !slices.Equal(targets, want) {
				t.Errorf("%s: %s mounts %q, want %q", file, name, targets, want)
			}
			if a := s.Environment["POLYSTALKD_CLUSTER_ADVERTISE"]; a != nil {
				addresses = append(addresses, *a)
				if *a != name+":11390" {
					t.Errorf("%s: %s is told that it is at %s", file, name, *a)
				}
			}
		}
		slices.Sort(addresses)
		for _, s := range p.Services {
			if list := s.Environment["POLYSTALKD_CLUSTER_BOOTSTRAP"]; list != nil && *list != strings.Join(addresses, ",") {
				t.Errorf("%s: the list is %s, the addresses are %q", file, *list, addresses)
			}
		}
	}
}

// TestServerWithoutItsCertificateNamesTheFile in its log.
func TestServerWithoutItsCertificateNamesTheFile(t *testing.T) {
	p, err := compose(t, "deploy/compose-cluster.yaml", "x")
	must(t, err)
	for file, variable := range map[string]string{"/certs/ca.crt": "CA", "/certs/jobs2.crt": "CERT", "/certs/jobs2.key": "KEY"} {
		c := containerOf(t, p.Services["jobs2"])
		must(t, os.Remove(c.dir+file))
		want := "variable POLYSTALKD_CLUSTER_" + variable + ": open " + file + ": no such file or directory: give a file"
		if got := c.check(t); !strings.Contains(got, want) {
			t.Errorf("without %s: %q, want %q", file, got, want)
		}
	}
}

// TestComposeFaultsAreFound: an unknown key is an error.
func TestComposeFaultsAreFound(t *testing.T) {
	text, err := os.ReadFile("deploy/compose.yaml")
	must(t, err)
	for _, tt := range []struct{ from, to string }{{"read_only:", "readonly:"}, {"cap_drop: [ALL]", "cap_drop: ALL"}, {"jobs:/var", "work:/var"}} {
		dir := t.TempDir()
		writeFile(t, dir, "compose.yaml", strings.Replace(string(text), tt.from, tt.to, 1))
		if _, err := compose(t, dir+"/compose.yaml", "x"); err == nil {
			t.Errorf("%q in place of %q is not found", tt.to, tt.from)
		}
	}
}
