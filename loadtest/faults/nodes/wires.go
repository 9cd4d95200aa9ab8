package nodes

import (
	"errors"

	"polystalk/codec/wiretest/relay"
)

// Wires are what connects the nodes: a relay for each that calls another. Its methods are
// for one goroutine.
type Wires struct {
	// from a node's number to another's: what the first has calls of the second go through.
	relays map[wire]*relay.Relay
}

// A wire is one direction between two nodes, by their numbers.
type wire struct{ from, to int }

// join puts relays between n and each of the others.
func (w *Wires) join(n *Node, others []*Node) error {
	for _, o := range others {
		for _, pair := range [][2]*Node{{n, o}, {o, n}} {
			r, err := relay.Listen("127.0.0.1:0", pair[1].Cluster)
			if err != nil {
				return err
			}
			w.relays[wire{pair[0].Number, pair[1].Number}] = r
		}
	}
	return nil
}

// dials are where n is to connect instead of to each other node: pairs of addresses.
func (w *Wires) dials(n *Node, all []*Node) []string {
	var pairs []string
	for _, o := range all {
		if r := w.relays[wire{n.Number, o.Number}]; r != nil {
			pairs = append(pairs, o.Cluster+"="+r.Addr())
		}
	}
	return pairs
}

// Cut keeps back what goes from one node to another, on connections that either has made.
func (w *Wires) Cut(from, to *Node) {
	if r := w.relays[wire{from.Number, to.Number}]; r != nil {
		r.Hold(relay.Out)
	}
	if r := w.relays[wire{to.Number, from.Number}]; r != nil {
		r.Hold(relay.Back)
	}
}

// Mend has all bytes flow again. With forget all connections are reset before: what was
// kept back never arrives.
func (w *Wires) Mend(forget bool) {
	for _, r := range w.relays {
		if forget {
			r.Reset()
		}
		r.Heal()
	}
}

// Reset breaks all connections from or to n.
func (w *Wires) Reset(n *Node) {
	for k, r := range w.relays {
		if k.from == n.Number || k.to == n.Number {
			r.Reset()
		}
	}
}

func (w *Wires) close() error {
	var all []error
	for _, r := range w.relays {
		all = append(all, r.Close())
	}
	return errors.Join(all...)
}
