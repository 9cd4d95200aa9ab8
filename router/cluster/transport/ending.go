package transport

import (
	"crypto/x509"
	"slices"
	"time"
)

// An Ending is when others no longer believe this node, and which of its files is to be another one
// by then.
type Ending struct {
	At   time.Time
	Flag string // without the dashes: cluster-cert, or cluster-ca
	File string
}

// Ending is that of what was read last: the server's certificate is not valid any more, or one
// between it and the authority's, or that.
func (s *Security) Ending() Ending {
	m := s.current.Load()
	e := Ending{At: m.ends.NotAfter, Flag: "cluster-cert", File: s.o.Cert}
	if slices.ContainsFunc(m.roots, m.ends.Equal) && !m.ends.Equal(m.chain[0]) {
		e.Flag, e.File = "cluster-ca", s.o.CA
	}
	return e
}

// Until is when Ending is.
func (s *Security) Until() time.Time { return s.Ending().At }

// firstToEnd is, of the chain to the authority that is valid for longest, the certificate that ends
// first. There is such a chain at this moment.
func (m *material) firstToEnd() (ends *x509.Certificate) {
	chains, err := m.chain[0].Verify(m.options(m.chain, x509.ExtKeyUsageAny, time.Now()))
	if err != nil {
		return m.chain[0]
	}
	for _, chain := range chains {
		first := slices.MinFunc(chain, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
		if ends == nil || first.NotAfter.After(ends.NotAfter) {
			ends = first
		}
	}
	return ends
}
