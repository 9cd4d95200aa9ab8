package config

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// ReportVariable tells a daemon the descriptor on which it reports that it is serving.
const ReportVariable = "POLYSTALKD_DAEMON_REPORT"

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
		remedy = " is unknown and has no effect: see " + normalHelp
		newFlagSet(newConfig()).VisitAll(func(f *pflag.Flag) {
			if hasEnv(f) {
				known[envName(f)] = true
			}
		})
	}
	for _, v := range slices.Sorted(slices.Values(environ)) {
		name, value, _ := strings.Cut(v, "=")
		if strings.HasPrefix(name, envPrefix) && value != "" && !known[name] && !isServiceLink(name, value) {
			c.Warnings = append(c.Warnings, "variable "+name+remedy)
		}
	}
}

// isServiceLink reports whether Kubernetes or Docker sets the variable because of a service
// or a linked container with a name that begins with polystalkd: NAME_SERVICE_HOST,
// NAME_SERVICE_PORT_WORD, NAME_PORT=tcp://…, NAME_PORT_11300_TCP_ADDR and the like.
func isServiceLink(name, value string) bool {
	for _, scheme := range []string{"tcp://", "udp://", "sctp://"} {
		if strings.HasPrefix(value, scheme) {
			return true
		}
	}
	if strings.HasSuffix(name, "_SERVICE_HOST") || strings.HasSuffix(name, "_SERVICE_PORT") || strings.Contains(name, "_SERVICE_PORT_") {
		return true
	}
	if strings.HasSuffix(name, "_NAME") && strings.HasPrefix(value, "/") || strings.Contains(name, "_ENV_") {
		return true
	}
	_, port, ok := strings.Cut(name, "_PORT_")
	digits := strings.TrimLeft(port, "0123456789")
	return ok && digits != port && strings.HasPrefix(digits, "_")
}
