package member

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io/fs"
	"path/filepath"

	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
	"polystalk/codec/binlog"
	"polystalk/router/cluster"
	"polystalk/router/cluster/join"
	"polystalk/shard/wal"
)

// Check refuses to start on a directory as what it is not: a member of a cluster without
// saying so, or the other way round. It changes nothing; the directory is locked, or nobody
// serves on it. again says that this process has served on it before.
//
// An empty directory never votes under an old name: whoever has lost its disk does not know how
// it has voted, nor what it has acknowledged, and would let a majority forget it.
func Check(c *config.Config, again bool) error {
	id, err := identityOf(c.BinlogDir)
	pending := false
	if err == nil && id == nil && c.BinlogDir != "" {
		pending, err = join.Pending(wal.Dir(c.BinlogDir))
	}
	if err != nil {
		return fault.New(fault.Journal, "%s: the directory %q cannot be used: %v", c.Origin("binlog-dir"), c.BinlogDir, err)
	}
	k := &c.Cluster
	at := c.Origin("binlog-dir")
	switch {
	case pending && len(k.Join) == 0:
		return fault.New(fault.Journal, "%s: the directory %q was about to join a cluster, and holds nothing of its own: give --cluster-join again, or an empty directory", at, c.BinlogDir)
	case id == nil && (k.Listen == "" || pending):
		return nil
	case id == nil:
		return checkNew(c)
	case k.Listen == "":
		return fault.New(fault.Journal, "%s: the directory %q is that of server %q of a cluster, and others may have gone on without it: give --cluster-listen with its address; only if most of the others are lost for good, polystalk cluster recover-alone %s", at, c.BinlogDir, id.Name, c.BinlogDir)
	case k.New && !again:
		return fault.New(fault.Journal, "%s: the directory %q belongs to a cluster already, as server %q: leave it out, it is for the first start alone", c.Origin("cluster-new"), c.BinlogDir, id.Name)
	case c.IsSet("cluster-node") && k.Node != id.Name:
		return fault.New(fault.Journal, "%s: the directory %q is that of server %q: give that name, or leave it out", c.Origin("cluster-node"), c.BinlogDir, id.Name)
	}
	k.Node = id.Name
	return nil
}

// checkNew refuses what cannot be made a member's directory.
func checkNew(c *config.Config) error {
	k := &c.Cluster
	segments, err := filepath.Glob(filepath.Join(c.BinlogDir, "journal.*"))
	if err != nil {
		return err
	}
	files, err := binlog.Files(c.BinlogDir)
	if err != nil {
		return fault.New(fault.Journal, "%s: the directory %q cannot be used: %v: give another", c.Origin("binlog-dir"), c.BinlogDir, err)
	}
	switch {
	case !k.New && len(k.Join) == 0:
		return fault.New(fault.Journal, "%s: the directory %q belongs to no cluster: give --cluster-new to make one of it, or --cluster-join with the address of a server to come to its cluster", c.Origin("binlog-dir"), c.BinlogDir)
	case !k.New && len(segments)+len(files) > 0:
		return fault.New(fault.Journal, "%s: the directory %q holds jobs, which would be lost where those of a cluster come: give an empty one", c.Origin("binlog-dir"), c.BinlogDir)
	case k.New && len(segments) == 0 && len(files) > 0:
		return fault.New(fault.Journal, "%s: the directory %q holds jobs of beanstalkd's: start it once without --cluster-listen, which takes them over, and end it", c.Origin("binlog-dir"), c.BinlogDir)
	}
	return nil
}

// identityOf is whose directory it is; nil: that of a server that is alone, or nobody's.
func identityOf(dir string) (*cluster.Identity, error) {
	if dir == "" {
		return nil, nil
	}
	s, err := cluster.OpenState(wal.Dir(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	id := s.Identity()
	return &id, s.Close()
}

// randomID is a number that nothing has had.
func randomID() uint64 {
	var b [8]byte
	for {
		rand.Read(b[:]) // never fails
		if id := binary.LittleEndian.Uint64(b[:]); cluster.ValidID(id) {
			return id
		}
	}
}
