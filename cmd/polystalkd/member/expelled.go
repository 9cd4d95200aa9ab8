package member

import (
	"errors"
	"strings"

	"polystalk/cmd/polystalkd/fault"
	"polystalk/router/cluster"
)

// Expelled returns the fault of a server that cannot stay in its cluster; nil: why is another error.
func (m *Member) Expelled(why error) error {
	c := m.o.Config
	twin, is := errors.AsType[*twinError](why)
	switch {
	case errors.Is(why, cluster.ErrRemoved):
		return fault.New(fault.Removed, "%s: the directory %q belongs to server %q, which was removed from its cluster: to have the server back, move the directory away, and start it with an empty one and %s; to run it alone with its jobs, although others may have done some of them since, run polystalk cluster recover-alone %s --force",
			c.Origin("binlog-dir"), c.BinlogDir, m.id.Name, m.joinFlag(), c.BinlogDir)
	case errors.Is(why, cluster.ErrLogLost):
		return fault.New(fault.Removed, "%s: the directory %q of server %q lacks entries that this server has acknowledged, like an old copy: run polystalk cluster remove %s at another server, then start this one with an empty directory and %s",
			c.Origin("binlog-dir"), c.BinlogDir, m.id.Name, m.id.Name, m.joinFlag())
	case is:
		return fault.New(fault.Removed, "%s: the directory %q belongs to server %q, and another process runs as that server at %s: only one may, so this process ends. If this directory is a copy, delete it. If the other one is the copy, stop that process, run polystalk cluster remove %s at another server, and start this one with an empty directory and --cluster-join: the changes that the copy has acknowledged are not in this directory",
			c.Origin("binlog-dir"), c.BinlogDir, m.id.Name, twin.address, m.id.Name)
	}
	return nil
}

// joinFlag returns the flag to join the cluster again, if possible with another server's address.
func (m *Member) joinFlag() string {
	members := new(cluster.Members)
	if n, v := m.view(); n != nil {
		members = v.Members
	} else if m.state != nil {
		members = m.state.Members()
	}
	for _, one := range members.List {
		if one.ID != m.id.Node {
			return "--cluster-join " + one.Addr
		}
	}
	return "--cluster-join"
}

// oneLine returns the text of an answer.
func oneLine(b []byte) string { return strings.TrimSpace(string(b)) }
