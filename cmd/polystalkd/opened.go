package main

import (
	"errors"
	"net"
	"net/netip"
	"strconv"
)

// opened says for which address of the command line each listener was opened.
type opened map[net.Listener]address

// listen is listenTCP. Where a listener of our own is in the way it names the two
// addresses: there is no other server to be stopped.
func (o opened) listen(config *net.ListenConfig, a address) ([]net.Listener, error) {
	ls, err := listenTCP(config, a)
	if f, ok := errors.AsType[*fault](err); ok && f.inUse.IsValid() {
		for l, first := range o {
			if at, ok := l.Addr().(*net.TCPAddr); ok && overlap(at.AddrPort(), f.inUse) {
				return nil, faultf(exitSystem, "%s %s: %s is opened for %s %s already: leave one of the two out, or choose another port",
					a.from, strconv.Quote(a.given), at, first.from, strconv.Quote(first.given))
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
