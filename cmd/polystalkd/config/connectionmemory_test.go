package config

import (
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// TestConnectionMemory: the bound is large enough that one client cannot make the server close the
// connection of another that sends the largest body.
func TestConnectionMemory(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want int64
		warn int
	}{
		{[]string{"--connection-memory", "100000000"}, 100000000, 0},
		{[]string{"--connection-memory", "1"}, connectionMemoryMin, 1},
		{[]string{"--connection-memory", "100000000", "-z", "100000000"}, 400000000, 1},
		{[]string{"--connection-memory", "100000000", "--gearman-listen", "127.0.0.1:4730"}, 256 << 20, 1},
	} {
		c, err := parse(tt.args, nil)
		if err == nil {
			err = c.Validate()
		}
		if err != nil || c.Router().ConnectionMemory != tt.want || len(c.Warnings) != tt.warn {
			t.Errorf("%q: %d bytes, warnings %q, %v, want %d", tt.args, c.ConnectionMemory, c.Warnings, err, tt.want)
		}
	}
	c := valid(t)(parse(nil, nil))
	// The default is a quarter of the machine's memory, or of the limit of its control groups.
	have, err := memlimit.FromSystem()
	must(t, err)
	if limit, err := memlimit.FromCgroup(); err == nil && limit > 0 {
		have = min(have, limit)
	}
	if got, want := c.ConnectionMemory, max(connectionMemoryMin, int64(have/connectionMemoryPart)); got != want {
		t.Errorf("by default %d bytes, want %d", got, want)
	}
}
