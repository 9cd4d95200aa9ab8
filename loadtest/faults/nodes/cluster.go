package nodes

// clusterArguments are those that make n one of a cluster: the first node founds it,
// every other joins it, and who was a member once needs neither.
func (f *Fleet) clusterArguments(n *Node) []string {
	args := []string{"--cluster-listen", n.Cluster, "--cluster-node", n.Name, "--cluster-timeout", f.o.Timeout.String()}
	all := f.All()
	for _, pair := range f.Wires.dials(n, all) {
		args = append(args, "--cluster-dial", pair)
	}
	if n.Member {
		return args
	}
	joins := len(args)
	for _, o := range all {
		if o != n && o.Member {
			args = append(args, "--cluster-join", o.Cluster)
		}
	}
	if len(args) == joins {
		args = append(args, "--cluster-new")
	}
	return args
}
