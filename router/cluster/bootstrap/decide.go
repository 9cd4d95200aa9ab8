package bootstrap

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"polystalk/router/cluster"
)

// An Answer is what a server tells another one that wants to bootstrap.
type Answer struct {
	Node    uint64 `json:"node,string"`
	Name    string `json:"name"`
	Address string `json:"address"` // HOST:PORT at which others reach it
	List    string `json:"list"`    // the digest of its list
	Bound   string `json:"bound"`   // see bindingOf; empty: its ID is not bound

	// The rest is set by a server that belongs to a cluster.
	Cluster  uint64           `json:"cluster,string"` // zero: it belongs to none
	Votes    bool             `json:"votes"`          // the asking server is one that votes
	Founders []cluster.Member `json:"founders"`       // empty: it does not know them
}

// An action is what a new server does next.
type action uint8

const (
	wait    action = iota // for the reason why
	bind                  // bind the ID to bound
	discard               // give the ID up, for the reason why
	found                 // make a cluster of members
	adopt                 // begin as a founding member of cluster
	join                  // join the cluster that answers
)

// A decision is an action with what it needs.
type decision struct {
	do      action
	bound   string
	cluster uint64
	members []cluster.Member
	why     string
}

// digestOf returns the digest of a sorted list.
func digestOf(list []string) string {
	sum := sha256.Sum256([]byte(strings.Join(list, "\n")))
	return hex.EncodeToString(sum[:])
}

// bindingOf returns the text to which an ID is bound: the list, and the ID of the server that founds.
func bindingOf(list []string, founder uint64) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %016x", digestOf(list), founder))
	return hex.EncodeToString(sum[:])
}

// decide decides what a new server does next. answers are by address, and have the server's own. An
// address without an answer is missing. list is sorted.
func decide(self *Answer, list []string, answers map[string]*Answer) decision {
	if d, is := decideMember(self, list, answers); is {
		return d
	}
	if why := disagreement(self, list, answers); why != "" {
		return decision{why: why}
	}
	first := answers[list[0]]
	switch bound := bindingOf(list, first.Node); {
	case self.Bound == "":
		return decision{do: bind, bound: bound}
	case self.Bound != bound:
		return decision{do: discard, why: "the list has changed, or the server at " + list[0] + " has lost its disk"}
	case self.Node != first.Node:
		return decision{why: "the server at " + list[0] + " makes the cluster"}
	}
	var members []cluster.Member
	for _, at := range list {
		a := answers[at]
		if a.Bound != self.Bound {
			return decision{why: "the server at " + at + " has not agreed to this server yet"}
		}
		members = append(members, cluster.Member{ID: a.Node, Name: a.Name, Addr: a.Address})
	}
	return decision{do: found, members: members}
}

// decideMember decides if a server that answers belongs to a cluster. An ID that is bound only adopts
// and an ID that is not bound only joins.
func decideMember(self *Answer, list []string, answers map[string]*Answer) (d decision, is bool) {
	var clusters []uint64
	votes := false
	for _, at := range list {
		a := answers[at]
		if a == nil || a.Cluster == 0 {
			continue
		}
		if a.Votes && slices.ContainsFunc(a.Founders, func(m cluster.Member) bool { return m.ID == self.Node }) {
			return decision{do: adopt, cluster: a.Cluster, members: a.Founders}, true
		}
		votes = votes || a.Votes
		if !slices.Contains(clusters, a.Cluster) {
			clusters = append(clusters, a.Cluster)
		}
	}
	switch {
	case len(clusters) == 0:
		return d, false
	case votes:
		d.why = "this server belongs to the cluster, but no server that answers knows the founding members: start one of these, or run `polystalk cluster remove " + self.Name + "` at another server and start this one with an empty directory"
	case len(clusters) > 1:
		d.why = fmt.Sprintf("the servers in the list belong to different clusters, %016x: give each cluster a list of its own", clusters)
	case self.Bound != "":
		d = decision{do: discard, why: "a cluster was made without this server"}
	default:
		d.do = join
	}
	return d, true
}

// disagreement returns why the servers cannot make a cluster yet; empty: they can.
func disagreement(self *Answer, list []string, answers map[string]*Answer) string {
	var missing, why []string
	nodes, names := map[uint64]string{}, map[string]string{} // addresses
	for _, at := range list {
		a := answers[at]
		switch {
		case a == nil:
			missing = append(missing, at)
			continue
		case nodes[a.Node] != "":
			why = append(why, fmt.Sprintf("the same server answers at %s and %s: name each server once, and start none from a copy of a directory", nodes[a.Node], at))
		case a.List != self.List:
			why = append(why, fmt.Sprintf("the server at %s has another list: give all servers the same --cluster-bootstrap", at))
		case a.Address != at:
			why = append(why, fmt.Sprintf("the server that answers at %s says that it is at %s: correct its --cluster-advertise, or the list", at, a.Address))
		case names[a.Name] != "":
			why = append(why, fmt.Sprintf("the servers at %s and %s both have the name %q: give each another --cluster-node", names[a.Name], at, a.Name))
		}
		nodes[a.Node], names[a.Name] = at, at
	}
	if len(missing) > 0 {
		why = append(why, "no answer from "+strings.Join(missing, ", "))
	}
	return strings.Join(why, "; ")
}
