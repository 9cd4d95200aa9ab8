package member

import (
	"net"
	"sync"

	"polystalk/router/cluster"
	"polystalk/router/cluster/forward"
)

// doors are where clients come in: from Open on they are handed to the server that leads, and
// served here once that is this one.
type doors struct {
	m      *Member
	failed chan error

	mu      sync.Mutex
	forward *forward.Forwarder // nil: Follow is not that far
	leads   bool
	heard   leadership
}

// begin has clients be handed on by f once they come.
func (d *doors) begin(f *forward.Forwarder) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forward = f
}

// Open lets clients in. Each listener is the Member's from then on; one that fails is delivered.
func (m *Member) Open(beanstalkd, gearman []net.Listener) (failed <-chan error) {
	d := &m.clients
	d.failed = make(chan error, len(beanstalkd)+len(gearman))
	names := m.srv.Operator().Protocols()
	for _, l := range beanstalkd {
		go d.tend(d.forward, l, names[0], m.srv.Serve)
	}
	for _, l := range gearman {
		go d.tend(d.forward, l, names[1], m.srv.ServeGearman)
	}
	return d.failed
}

// tend hands clients on until this server leads, and has them served here from then on.
func (d *doors) tend(f *forward.Forwarder, l net.Listener, protocol string, serve func(net.Listener) error) {
	err := f.Serve(l, protocol)
	if err == nil {
		err = serve(l)
	}
	if err != nil {
		d.failed <- err
	}
}

// serve has clients served here: this server leads. It is called once.
func (d *doors) serve() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leads = true
	d.heard.end()
	d.m.log.Info("this server leads: clients are served here")
	d.forward.Release()
	d.forward.SetLeader(d.m.id.Node)
}

// changed hears who leads.
func (d *doors) changed(v cluster.View) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.leads: // until the process begins anew
	case v.Leader == d.m.id.Node: // it is about to serve
		d.forward.SetLeader(0)
	default:
		d.forward.SetLeader(v.Leader)
	}
	if !d.leads {
		d.heard.note(v, d.m.id.Node, d.m.log, max(leaderlessMin, leaderlessTimeouts*d.m.o.Config.Cluster.Timeout))
	}
}

// handed is how many clients were handed on.
func (d *doors) handed() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.forward == nil {
		return 0
	}
	return d.forward.Counts().Accepted
}

// close lets nobody in any more, and ends what was handed on.
func (d *doors) close() {
	d.mu.Lock()
	d.heard.end()
	d.mu.Unlock()
	if d.forward != nil {
		d.forward.Close()
	}
}
