package config

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// ReportVariable tells a daemon, which the program starts, on which descriptor it
// reports that it serves.
const ReportVariable = "POLYSTALKD_DAEMON_REPORT"

// WarnOfVariables warns of variables that look like ours and are not read: a name that
// is slightly wrong would else go unnoticed for ever. environ is as os.Environ has it.
func (c *Config) WarnOfVariables(environ []string) {
	known := map[string]bool{
		ReportVariable: true,
		// Somebody's note about the program: see hasEnv.
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

// isServiceLink reports whether a variable is one of those that Kubernetes puts into
// every pod beside a service, or Docker into a container linked to another, here one
// whose name begins with polystalkd: NAME_SERVICE_HOST, NAME_SERVICE_PORT_WORD,
// NAME_PORT=tcp://…, NAME_PORT_11300_TCP_ADDR and the like.
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
