package nodes

// clusterArguments are those that make n one of a cluster: the first node founds it,
// every other joins it, and who was a member once needs neither.
func (f *Fleet) clusterArguments(n *Node) []string {
	args := []string{"--cluster-listen", n.Cluster, "--cluster-node", n.Name, "--cluster-timeout", f.o.Timeout.String()}
	for _, pair := range f.Wires.dials(n, f.Nodes) {
		args = append(args, "--cluster-dial", pair)
	}
	switch {
	case n.Member:
	case n.Number == 0 && !f.others(n):
		args = append(args, "--cluster-new")
	default:
		for _, o := range f.Nodes {
			if o != n && o.Member {
				args = append(args, "--cluster-join", o.Cluster)
			}
		}
	}
	return args
}

// others reports whether there is a member besides n.
func (f *Fleet) others(n *Node) bool {
	for _, o := range f.Nodes {
		if o != n && o.Member {
			return true
		}
	}
	return false
}
