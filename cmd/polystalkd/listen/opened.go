package listen

import (
	"errors"
	"net"
	"net/netip"
	"strconv"

	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
)

// opened maps each listener to its address on the command line.
type opened map[net.Listener]config.Address

// listen is like listenTCP. If another listener of this process uses the address, the error names
// both addresses, since there is no other server to stop.
func (o opened) listen(lc *net.ListenConfig, a config.Address) ([]net.Listener, error) {
	ls, err := listenTCP(lc, a)
	if f, ok := errors.AsType[*fault.Fault](err); ok && f.InUse.IsValid() {
		for l, first := range o {
			if at, ok := l.Addr().(*net.TCPAddr); ok && overlap(at.AddrPort(), f.InUse) {
				return nil, fault.New(fault.System, "%s %s: %s is opened for %s %s already: leave one of the two out, or choose another port",
					a.From, strconv.Quote(a.Given), at, first.From, strconv.Quote(first.Given))
			}
		}
	}
	for _, l := range ls {
		o[l] = a
	}
	return ls, err
}

// overlap reports whether listening on both may be impossible.
func overlap(a, b netip.AddrPort) bool {
	ipA, ipB := a.Addr().Unmap(), b.Addr().Unmap()
	return a.Port() == b.Port() && (ipA == ipB || ipA.IsUnspecified() || ipB.IsUnspecified())
}
