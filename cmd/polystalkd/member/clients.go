package member

import (
	"net"
	"sync"

	"polystalk/router/cluster"
	"polystalk/router/cluster/forward"
)

// clients has the clients' listeners. After Open clients are forwarded to the leader, and served
// here once this server leads.
type clients struct {
	m      *Member
	failed chan error

	mu      sync.Mutex
	forward *forward.Forwarder // nil: Follow has not made it
	leads   bool
}

func (d *clients) begin(f *forward.Forwarder) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forward = f
}

// Open accepts clients, and takes ownership of the listeners. failed delivers a listener's error.
func (m *Member) Open(beanstalkd, gearman []net.Listener) (failed <-chan error) {
	d := &m.clients
	d.failed = make(chan error, len(beanstalkd)+len(gearman))
	names := m.srv.Operator().Protocols()
	for _, l := range beanstalkd {
		go d.listen(l, names[0], m.srv.Serve)
	}
	for _, l := range gearman {
		go d.listen(l, names[1], m.srv.ServeGearman)
	}
	return d.failed
}

// listen forwards clients until this server leads, and serves them then.
func (d *clients) listen(l net.Listener, protocol string, serve func(net.Listener) error) {
	err := d.forward.Serve(l, protocol)
	if err == nil {
		err = serve(l)
	}
	if err != nil {
		d.failed <- err
	}
}

// serve serves clients here: this server leads. It is called once.
func (d *clients) serve() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leads = true
	d.m.log.Info("this server leads: clients are served here")
	d.forward.Release()
	d.forward.SetLeader(d.m.id.Node)
}

// setLeader follows a new view. A server that has led serves until the process restarts.
func (d *clients) setLeader(v *cluster.View) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.leads:
	case v.Leader == d.m.id.Node: // it is about to serve
		d.forward.SetLeader(0)
	default:
		d.forward.SetLeader(v.Leader)
	}
}

// forwarded returns the number of clients that were forwarded.
func (d *clients) forwarded() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.forward == nil {
		return 0
	}
	return d.forward.Accepted()
}

func (d *clients) close() {
	if d.forward != nil {
		d.forward.Close()
	}
}
