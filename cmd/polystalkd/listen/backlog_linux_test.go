package listen

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestBacklogIsSet: Linux reports the backlog of a listening socket.
func TestBacklogIsSet(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want func(n uint32) bool
	}{
		{[]string{"-b", "17"}, func(n uint32) bool { return n == 17 }},
		{nil, func(n uint32) bool { return n >= 128 }}, // what the system allows
	} {
		c := gearmandConfig(t, tt.args...)
		ls, err := listenTCP(gearmanTCP(c), c.Gearman.Addresses[0])
		must(t, err)
		defer closeAll(ls)
		must(t, setBacklog(c, ls))
		f := file(t, ls[0].(interface{ File() (*os.File, error) }))
		info, err := unix.GetsockoptTCPInfo(int(f.Fd()), unix.IPPROTO_TCP, unix.TCP_INFO)
		must(t, err)
		if !tt.want(info.Sacked) {
			t.Errorf("%q: %d connections may wait", tt.args, info.Sacked)
		}
	}
}
