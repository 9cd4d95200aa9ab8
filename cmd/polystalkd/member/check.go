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
	"polystalk/router/cluster/snapshot"
	"polystalk/router/cluster/transport"
	"polystalk/shard/wal"
)

// Check refuses to start on a directory that does not fit the command line: a member's without
// --cluster-listen, or the other way round. It changes nothing; the caller has locked the directory.
// again says that this process has served on it before.
//
// A server with an empty directory never votes under an old name: if it has lost its disk, it knows
// neither its votes nor the entries that it acknowledged, and a majority could forget them.
func Check(c *config.Config, again bool) error {
	id, err := identityOf(c.BinlogDir)
	pending := false
	if err == nil && id == nil && c.BinlogDir != "" {
		pending, err = snapshot.Pending(wal.Dir(c.BinlogDir))
	}
	if err != nil {
		return fault.New(fault.Journal, "%s: the directory %q cannot be used: %v", c.Origin("binlog-dir"), c.BinlogDir, err)
	}
	k := &c.Cluster
	at := c.Origin("binlog-dir")
	switch {
	case pending && len(k.Join) == 0:
		return fault.New(fault.Journal, "%s: the directory %q belongs to a server that has not finished joining a cluster: give --cluster-join again, or an empty directory", at, c.BinlogDir)
	case id == nil && (k.Listen == "" || pending):
		return nil
	case id == nil:
		return checkNew(c)
	case k.Listen == "":
		return fault.New(fault.Journal, "%s: the directory %q belongs to server %q of a cluster, and the others may have continued without it: give --cluster-listen with its address; only if most of the others are lost for good, run polystalk cluster recover-alone %s", at, c.BinlogDir, id.Name, c.BinlogDir)
	case k.New && !again:
		return fault.New(fault.Journal, "%s: the directory %q belongs to a cluster already, as server %q: leave it out, it is only for the first start", c.Origin("cluster-new"), c.BinlogDir, id.Name)
	case c.IsSet("cluster-node") && k.Node != id.Name:
		return fault.New(fault.Journal, "%s: the directory %q belongs to server %q: give that name, or leave it out", c.Origin("cluster-node"), c.BinlogDir, id.Name)
	}
	k.Node = id.Name
	return nil
}

// checkNew refuses a directory that cannot become a member's.
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
		return fault.New(fault.Journal, "%s: the directory %q belongs to no cluster: give --cluster-new to make a cluster of it, or --cluster-join with the address of a server to join its cluster", c.Origin("binlog-dir"), c.BinlogDir)
	case !k.New && len(segments)+len(files) > 0:
		return fault.New(fault.Journal, "%s: the directory %q holds jobs, which the jobs of the cluster would replace: give an empty one", c.Origin("binlog-dir"), c.BinlogDir)
	case k.New && len(segments) == 0 && len(files) > 0:
		return fault.New(fault.Journal, "%s: the directory %q holds jobs of beanstalkd: start the server once without --cluster-listen, which imports them, and stop it", c.Origin("binlog-dir"), c.BinlogDir)
	}
	return nil
}

// identityOf returns the identity of a member's directory; nil: it is not a member's.
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

// randomID returns a random valid ID.
func randomID() uint64 {
	var b [8]byte
	for {
		rand.Read(b[:]) // never fails
		if id := binary.LittleEndian.Uint64(b[:]); cluster.ValidID(id) {
			return id
		}
	}
}

// Secure reads the certificates; nil: none are needed. The error is a fault.
func Secure(c *config.Config) (*transport.Security, error) {
	k := &c.Cluster
	s, err := transport.Secure(transport.SecureOptions{
		Name: k.Node, Listen: k.Listen, Advertise: k.Advertise,
		Cert: k.Cert, Key: k.Key, CA: k.CA, AllowsPlaintext: k.Plaintext,
	})
	if one, ok := errors.AsType[*transport.FlagError](err); ok {
		return nil, fault.New(fault.Usage, "%s: %v", c.Origin(one.Flag), one.Err)
	}
	if err != nil {
		return nil, fault.New(fault.Usage, "%s: %v", c.Origin("cluster-listen"), err)
	}
	return s, nil
}
