package transport

import (
	"fmt"
	"strings"
)

// An Identity is who a node is.
type Identity struct {
	Cluster uint64 // random, the same for all nodes of a cluster; 0: it does not belong to one yet
	Node    uint64 // random, never 0, never used again for another
	Name    string // what operators call it, and what its certificate is for
}

// String is for people.
func (i Identity) String() string { return fmt.Sprintf("%s (%x)", i.Name, i.Node) }

// A Member is a node and where it listens.
type Member struct {
	Node uint64
	Name string
	Addr string // host:port
}

// A Kind says what a connection is for.
type Kind uint8

// The kinds of connections.
const (
	Raft    Kind = 1 + iota // messages of consensus
	Forward                 // a client's connection, handed on to the leader
	Journal                 // a leader's journal
	Admin                   // what operators ask, and nodes that want to join
	Relay                   // requests of operators that another node hands on to the leader
	kindEnd
)

// String is the kind's name in logs and metrics.
func (k Kind) String() string {
	if k == 0 || k >= kindEnd {
		return fmt.Sprintf("kind %d", uint8(k))
	}
	return [...]string{"", "raft", "forward", "journal", "admin", "relay"}[k]
}

// nameMax is the longest name of a node in bytes: that of a label in a host's name.
const nameMax = 63

// ValidName reports what is wrong with the name of a node. It is also the name that the
// node's certificate is for, so that it is spelled as hosts are, and in one way only.
func ValidName(name string) error {
	const ends = "abcdefghijklmnopqrstuvwxyz0123456789"
	stranger := func(r rune) bool { return !strings.ContainsRune(ends+"-.", r) }
	if name == "" || len(name) > nameMax || strings.ContainsFunc(name, stranger) ||
		strings.Trim(name[:1]+name[len(name)-1:], ends) != "" {
		return fmt.Errorf("%q cannot be the name of a server: use 1 to %d of a-z, 0-9, hyphens and dots, with a letter or digit at each end", name, nameMax)
	}
	return nil
}
