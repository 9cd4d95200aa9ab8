//go:build !linux

package reactor

import "net"

// enroll gives a loop a connection that has a seat, by way of gnet's Enroll.
func (r *Reactor) enroll(c net.Conn, k *socket) error {
	if _, err := r.client.EnrollContext(c, k); err != nil && k.s == nil {
		return err
	}
	return nil
}
