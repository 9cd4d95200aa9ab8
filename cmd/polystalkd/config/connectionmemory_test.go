package config

import "testing"

// TestConnectionMemory: the bound is never so small that one client can close the connection
// of another that sends the largest body.
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
	c, err := parse(nil, nil)
	if err == nil {
		err = c.Validate()
	}
	if err != nil || c.ConnectionMemory < connectionMemoryMin || c.ConnectionMemory == 1<<63-1 {
		t.Errorf("by default %d bytes, %v", c.ConnectionMemory, err)
	}
}
