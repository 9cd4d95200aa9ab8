package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"polystalk/cmd/polystalkd/fault"
)

// envPrefix and a flag's long name in upper case, "_" for "-", make the name of
// its environment variable.
const envPrefix = "POLYSTALKD_"

// ReportVariable tells a daemon the descriptor on which it reports that it is serving.
const ReportVariable = "POLYSTALKD_DAEMON_REPORT"

// hasEnv reports whether a flag has an environment variable. Flags that start no server have
// none: POLYSTALKD_VERSION in a container's environment describes the image; it does not ask for
// the version.
func hasEnv(f *pflag.Flag) bool {
	switch f.Name {
	case "version", "help", "check-args", "check-config":
		return false
	}
	return true
}

func envName(f *pflag.Flag) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
}

// fromEnv sets f from its variable. An empty variable counts as unset. Variables of flags
// that may be repeated hold values separated by commas.
func (c *Config) fromEnv(f *pflag.Flag, lookupEnv func(string) (string, bool)) error {
	name := envName(f)
	value := c.variable(name, f.Name == "port", lookupEnv)
	// -f and -F undo each other, and the command line has precedence.
	if value == "" || strings.HasPrefix(c.origins[opposite[f.Name]], "flag") {
		return nil
	}
	values := []string{value}
	if kindOf(f) == lists {
		values = strings.Split(value, ",")
	}
	for _, v := range values {
		if err := c.keys.all.Set(f.Name, strings.TrimSpace(v)); err != nil {
			return fault.New(fault.Usage, "variable %s: %s", name, c.keys.complaint(f, v, err, spelling(f)+" "))
		}
	}
	c.origins[f.Name] = "variable " + name
	return nil
}

// variable returns the value of a variable; empty: unset. Kubernetes sets the variable of a port
// in every pod next to a service with the program's name; variable ignores it, with a warning.
func (c *Config) variable(name string, isPort bool, lookupEnv func(string) (string, bool)) string {
	value, _ := lookupEnv(name)
	if isPort && strings.HasPrefix(value, "tcp://") {
		c.warn("variable %s=%s is a Kubernetes service link, not a port, and is ignored", name, value)
		return ""
	}
	return value
}

// WarnOfVariables adds a warning for each variable that has our prefix but is not read, as a
// misspelled name would otherwise go unnoticed. environ has the form of os.Environ.
func (c *Config) WarnOfVariables(environ []string) {
	known := map[string]bool{
		ReportVariable: true,
		// Images set these to describe the program: see hasEnv.
		envPrefix + "VERSION": true, envPrefix + "HELP": true,
	}
	remedy := " is not read in place of gearmand: give the flag"
	if !c.Gearmand {
		remedy = " is unknown and has no effect: see " + c.keys.help
		c.keys.all.VisitAll(func(f *pflag.Flag) {
			if hasEnv(f) {
				known[envName(f)] = true
			}
		})
	}
	for _, v := range slices.Sorted(slices.Values(environ)) {
		name, value, _ := strings.Cut(v, "=")
		if strings.HasPrefix(name, envPrefix) && value != "" && !known[name] && !isServiceLink(name, value) {
			c.warn("variable %s%s", name, remedy)
		}
	}
}

// isServiceLink reports whether Kubernetes or Docker sets the variable because of a service
// or a linked container with a name that begins with polystalkd: NAME_SERVICE_HOST,
// NAME_SERVICE_PORT_WORD, NAME_PORT=tcp://…, NAME_PORT_11300_TCP_ADDR and the like.
func isServiceLink(name, value string) bool {
	scheme, _, isURL := strings.Cut(value, "://")
	return serviceLink.MatchString(name) || strings.HasSuffix(name, "_NAME") && strings.HasPrefix(value, "/") ||
		isURL && slices.Contains([]string{"tcp", "udp", "sctp"}, scheme)
}

var serviceLink = regexp.MustCompile(`_SERVICE_(HOST|PORT(_.*)?)$|_PORT_[0-9]+_|_ENV_`)

// credentials maps options that name a secret file to the service manager's credentials. These
// are used if the option is not set. A secret is never the value of a flag, a variable or a key:
// other users can see such values in the process list, in a container's description and in the
// output of --check-config.
// Source: systemd.exec(5), LoadCredential=.
var credentials = []struct{ option, credential string }{
	{"access-file", "access-file"},
	{"http-tls-cert", "http-tls-cert"},
	{"http-tls-key", "http-tls-key"},
	{"tls-cert", "tls-cert"},
	{"tls-key", "tls-key"},
	{"tls-client-ca", "tls-client-ca"},
	{"tls-client-crl", "tls-client-crl"},
	{"cluster-cert", "cluster-cert"},
	{"cluster-key", "cluster-key"},
	{"cluster-ca", "cluster-ca"},
}

// findCredentials sets options without a value to the credentials that exist. Credentials of a
// cluster are used only by a server of a cluster.
func (c *Config) findCredentials(lookupEnv func(string) (string, bool)) {
	dir, _ := lookupEnv("CREDENTIALS_DIRECTORY")
	if dir == "" {
		return
	}
	if _, err := os.Lstat(filepath.Join(dir, "http-tokens")); err == nil {
		c.found(fault.New(fault.Usage, "credential http-tokens: %s", tokensRemoved))
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
