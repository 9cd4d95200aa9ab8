package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
)

// credentials maps options that name a secret file to the service manager's credentials. These
// are used if the option is not set. A secret is never the value of a flag, a variable or a key:
// other users can see such values in the process list, in a container's description and in the
// output of --check-config.
// Source: systemd.exec(5), LoadCredential=.
var credentials = []struct{ option, credential string }{
	{"http-tokens-file", "http-tokens"},
	{"http-tls-cert", "http-tls-cert"},
	{"http-tls-key", "http-tls-key"},
	{"cluster-cert", "cluster-cert"},
	{"cluster-key", "cluster-key"},
	{"cluster-ca", "cluster-ca"},
}

// credentialsVariable names the service manager's directory of credentials.
const credentialsVariable = "CREDENTIALS_DIRECTORY"

// findCredentials sets options without a value to the credentials that exist. Credentials of a
// cluster are used only by a server of a cluster.
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
			// If the file cannot be read, the code that reads it reports the error.
			if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
				continue
			}
			c.found(c.keys.all.Set(f.Name, path))
			c.origins[k.option] = "credential " + k.credential
		}
	})
}
