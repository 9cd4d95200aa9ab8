package main

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestBacklogIsSet: Linux tells of a listening socket how many may wait.
func TestBacklogIsSet(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want func(n uint32) bool
	}{
		{[]string{"-b", "17"}, func(n uint32) bool { return n == 17 }},
		{nil, func(n uint32) bool { return n >= 128 }}, // what the system allows
	} {
		c, err := parseAsGearmand(t, nil, append([]string{"-L", "127.0.0.1", "-p", "0"}, tt.args...)...)
		if err != nil {
			t.Fatal(err)
		}
		ls, err := listenTCP(c.gearmanTCP(), c.Gearman.addresses[0])
		if err != nil {
			t.Fatal(err)
		}
		defer closeAll(ls)
		if err := c.setBacklog(ls); err != nil {
			t.Fatal(err)
		}
		f := fileOf(t, ls[0].(interface{ File() (*os.File, error) }))
		info, err := unix.GetsockoptTCPInfo(int(f.Fd()), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			t.Fatal(err)
		}
		if !tt.want(info.Sacked) {
			t.Errorf("%q: %d connections may wait", tt.args, info.Sacked)
		}
	}
}
