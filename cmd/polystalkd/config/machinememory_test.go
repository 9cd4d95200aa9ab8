package config

import (
	"testing"
	"testing/fstest"
)

func TestMachineMemory(t *testing.T) {
	const meminfo = "MemTotal:       16000000 kB\nMemFree:         1000000 kB\n"
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"nothing is known", nil, memoryUnknown},
		{"a machine", map[string]string{"proc/meminfo": meminfo}, 16000000 << 10},
		{"no limit", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/system.slice/x.service\n",
			"sys/fs/cgroup/system.slice/x.service/memory.max": "max\n",
		}, 16000000 << 10},
		{"a container, version 2", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n",
			"sys/fs/cgroup/memory.max": "1073741824\n",
		}, 1 << 30},
		{"the least of those around", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b/c\n",
			"sys/fs/cgroup/a/b/c/memory.max": "4000000000\n", "sys/fs/cgroup/a/memory.max": "3000000000\n",
		}, 3000000000},
		{"a container, version 1, whose path is the host's", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "11:cpu,cpuacct:/docker/12\n5:memory:/docker/12\n1:name=systemd:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "536870912\n",
		}, 512 << 20},
		{"version 1 without a limit", map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "5:memory:/x\n",
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes": "9223372036854771712\n",
		}, 16000000 << 10},
		{"nonsense", map[string]string{"proc/meminfo": "MemTotal: x kB\n", "proc/self/cgroup": "\n:\n0::\n"}, memoryUnknown},
	} {
		root := fstest.MapFS{}
		for name, text := range tt.files {
			root[name] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := machineMemory(root); got != tt.want {
			t.Errorf("%s: %d bytes, want %d", tt.name, got, tt.want)
		}
	}
}

// The bound is never so small that a body does not fit.
func TestConnectionMemory(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want int64
		warn int
	}{
		{[]string{"--connection-memory", "100000000"}, 100000000, 0},
		{[]string{"--connection-memory", "1"}, connectionMemoryMin, 1},
		{[]string{"--connection-memory", "100000000", "-z", "100000000"}, 200000000, 1},
		{[]string{"--connection-memory", "100000000", "--gearman-listen", "127.0.0.1:4730"}, 128 << 20, 1},
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
