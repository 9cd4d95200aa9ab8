package config

import (
	"slices"
	"strings"
	"testing"
)

func TestUnknownVariablesAreNamed(t *testing.T) {
	environ := []string{
		"POLYSTALKD_MAX_JOBSIZE=1", "POLYSTALKD_=x", "POLYSTALKD_PORTS=1,2", "POLYSTALKD_CHECK_ARGS=true", "POLYSTALKD_PORT_TCP=1",

		"POLYSTALKD_PORT=1", "POLYSTALKD_LISTEN=::1", "POLYSTALKD_GEARMAN_MAX_BODY=1", "POLYSTALKD_COMPACT=1", "POLYSTALKD_VERBOSE=2",
		"POLYSTALKD_VERSION=1.2.3", "POLYSTALKD_HELP=me", "POLYSTALKD_UNSET=", "POLYSTALKD=/opt", "PATH=/bin", "GEARMAND_PORTS=1", ReportVariable + "=3",

		// Variables of services named polystalkd and polystalkd-gearman.
		"POLYSTALKD_SERVICE_HOST=10.0.0.1", "POLYSTALKD_SERVICE_PORT=11300", "POLYSTALKD_SERVICE_PORT_BEANSTALK=11300",
		"POLYSTALKD_PORT_11300_TCP=tcp://10.0.0.1:11300", "POLYSTALKD_PORT_11300_TCP_PROTO=tcp", "POLYSTALKD_PORT_11300_TCP_PORT=11300",
		"POLYSTALKD_PORT_11300_TCP_ADDR=10.0.0.1", "POLYSTALKD_GEARMAN_PORT=tcp://10.0.0.1:4730", "POLYSTALKD_GEARMAN_SERVICE_HOST=10.0.0.1",
		"POLYSTALKD_GEARMAN_PORT_4730_UDP_ADDR=10.0.0.1", "POLYSTALKD_NAME=/worker/polystalkd", "POLYSTALKD_ENV_PATH=/bin",
	}
	c := valid(t)(parse(nil, nil))
	c.WarnOfVariables(environ)
	want := []string{"POLYSTALKD_", "POLYSTALKD_CHECK_ARGS", "POLYSTALKD_MAX_JOBSIZE", "POLYSTALKD_PORTS", "POLYSTALKD_PORT_TCP"}
	for i, name := range want {
		want[i] = "variable " + name + " is unknown and has no effect: see polystalkd -h"
	}
	if !slices.Equal(c.Warnings, want) {
		t.Errorf("warnings %q,\nwant %q", c.Warnings, want)
	}

	c = newConfig()
	c.Gearmand = true
	c.WarnOfVariables(environ)
	if all := strings.Join(c.Warnings, "\n"); len(c.Warnings) != 10 || !strings.Contains(all, "variable POLYSTALKD_GEARMAN_MAX_BODY is not read in place of gearmand: give the flag") {
		t.Errorf("in place of gearmand: %s", all)
	}
}
