package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
)

// Secrets are the contents of files that options name: never of a flag, a variable or a
// file of the configuration, all of which others can come to see, in a list of processes,
// in a container's description, in what --check-config prints.
//
// credentials are, by our names of such options, the credentials of the service manager
// that are taken where no file is named. Source: systemd.exec(5), LoadCredential=.
var credentials = []struct{ option, credential string }{
	{"http-tokens-file", "http-tokens"},
	{"http-tls-cert", "http-tls-cert"},
	{"http-tls-key", "http-tls-key"},
	{"cluster-cert", "cluster-cert"},
	{"cluster-key", "cluster-key"},
	{"cluster-ca", "cluster-ca"},
}

// credentialsVariable names the directory in which the service manager leaves them.
const credentialsVariable = "CREDENTIALS_DIRECTORY"

// findCredentials names the credentials that are there for what nothing else has set. Those of a
// cluster are for a server that belongs to one: it may be alone for a while.
func (c *Config) findCredentials(lookupEnv func(string) (string, bool)) {
	dir, _ := lookupEnv(credentialsVariable)
	if dir == "" {
		return
	}
	c.keys.each(func(f *pflag.Flag) {
		for _, k := range credentials {
			path := filepath.Join(dir, k.credential)
			if k.option != c.keys.ours(f) || c.IsSet(k.option) || c.Cluster.Listen == "" && strings.HasPrefix(k.option, "cluster-") {
				continue
			}
			// One that is there and cannot be read is found out by who reads it.
			if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
				continue
			}
			c.found(c.keys.all.Set(f.Name, path))
			c.origins[k.option] = "credential " + k.credential
		}
	})
}
