package config

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"polystalk/router/cluster/transport"
)

// clusterConfig has the settings of a server in a cluster.
type clusterConfig struct {
	Listen    string   // HOST:PORT for the other servers; empty: no cluster
	Advertise string   // HOST:PORT at which other servers reach this one; set by Validate
	Node      string   // the server's name in the cluster; set by Validate
	New       bool     // the server starts a new cluster
	Join      []string // HOST:PORT of other servers; empty: the directory has them
	Bootstrap []string // HOST:PORT of all servers, which make a cluster together
	Standby   bool     // the server never votes

	Timeout     time.Duration // how long the leader may be silent before an election
	Wait        time.Duration // how long a new client waits for a leader
	DiskTimeout time.Duration // longest write or flush before the disk counts as hung
	CatchUpRate int64         // bytes a second sent to a server that catches up; 0: no limit

	Cert, Key, CA string // files of TLS; empty: no TLS
	Plaintext     bool   // TLS is not required

	Dial    []string // ADDR=ADDR each: where to connect instead; for tests
	Address Address  // Listen, parsed by Validate
}

// Limits and defaults of a cluster.
const (
	clusterTimeout     = 500 * time.Millisecond
	clusterTimeoutMin  = 100 * time.Millisecond
	clusterTimeoutMax  = time.Minute
	clusterWait        = 4 * time.Second // an election takes one or two timeouts, and clients want an answer within 5 s
	clusterWaitMax     = time.Hour
	clusterDiskTimeout = 10 * time.Second
	clusterDiskMin     = time.Second
	clusterDiskMax     = 10 * time.Minute
	clusterAddress     = "10.0.0.1:11390" // for examples
)

func (c *Config) clusterFlags(fs *pflag.FlagSet) {
	k := &c.Cluster
	fs.StringVar(&k.Listen, "cluster-listen", "", "be a server of a cluster, which replicates jobs to several servers: listen for\nthe other servers on `ADDR`, HOST:PORT, as in "+clusterAddress+"; needs -b (default: no cluster)")
	fs.StringVar(&k.Advertise, "cluster-advertise", "", "tell the other servers to reach this one at `ADDR`, HOST:PORT, as in\njobs1.example.com:11390 (default: the address of --cluster-listen)")
	fs.StringVar(&k.Node, "cluster-node", "", "name this server `NAME` in the cluster, as in jobs1 (default: the host name)")
	fs.BoolVar(&k.New, "cluster-new", false, "start a new cluster with this server; once")
	fs.StringArrayVar(&k.Join, "cluster-join", nil, "join a cluster with an empty directory, through the server at `ADDR`, HOST:PORT,\nas in "+clusterAddress+"; may be given several times")
	fs.StringArrayVar(&k.Bootstrap, "cluster-bootstrap", nil, "make one cluster of all servers that start with the same list of `ADDR`,\nHOST:PORT, as in jobs1.example.com:11390, or join it; later starts ignore it")
	fs.BoolVar(&k.Standby, "cluster-standby", false, "with --cluster-join: keep a copy, and never vote or lead")
	duration(fs, "cluster-timeout", &k.Timeout, clusterTimeout, clusterTimeoutMin, clusterTimeoutMax, "elect a new leader after the leader was silent for `TIME`")
	duration(fs, "cluster-wait", &k.Wait, clusterWait, 0, clusterWaitMax, "let a new client wait for a leader for up to `TIME`")
	duration(fs, "cluster-disk-timeout", &k.DiskTimeout, clusterDiskTimeout, clusterDiskMin, clusterDiskMax, "step down and exit when the disk has not answered for `TIME`")
	number(fs, "cluster-catchup-rate", "", "send a server that catches up at most `BYTES` a second; 0: no limit", &k.CatchUpRate, 0, 1<<40, giveBytes, "100000000")
	fs.StringVar(&k.Cert, "cluster-cert", "", "use TLS between the servers, with the certificate in `FILE` for the name\n--cluster-node")
	fs.StringVar(&k.Key, "cluster-key", "", "read the key of --cluster-cert from `FILE`")
	fs.StringVar(&k.CA, "cluster-ca", "", "trust only servers with a certificate signed by a certificate in `FILE`")
	fs.BoolVar(&k.Plaintext, "cluster-plaintext", false, "talk to the other servers without TLS, on a private network")
	fs.StringArrayVar(&k.Dial, "cluster-dial", nil, "")
	fs.Lookup("cluster-dial").Hidden = true
}

// validateCluster checks the settings without reading the directory, and fills Node and
// Advertise.
func (c *Config) validateCluster() {
	k := &c.Cluster
	if k.Listen == "" {
		c.refuse(c.IsSet("cluster-listen"), "cluster-listen", "the address is empty: give HOST:PORT, as in %s, or leave it out for a standalone server", clusterAddress)
		defaults := newFlagSet(newConfig())
		c.keys.each(func(f *pflag.Flag) {
			given := strings.HasPrefix(f.Name, "cluster-") && f.Name != "cluster-listen" && c.IsSet(f.Name)
			c.refuse(given && f.Value.String() != defaults.Lookup(f.Name).Value.String(), f.Name, "it has no effect without --cluster-listen: give that too, or leave it out")
		})
		return
	}
	k.Join = c.clusterAddresses("cluster-join", k.Join)
	k.Bootstrap = c.clusterAddresses("cluster-bootstrap", k.Bootstrap)
	list := c.clusterAddresses("cluster-listen", []string{k.Listen})
	if list == nil {
		return
	}
	k.Address = Address{Given: k.Listen, From: c.Origin("cluster-listen"), Like: "--cluster-listen " + clusterAddress}
	k.Address.Host, k.Address.Port, _ = net.SplitHostPort(k.Listen)
	const majority = "a cluster acknowledges a change when it is on the disks of a majority: leave it out"
	c.refuse(c.BinlogDir == "", "cluster-listen", "the servers of a cluster keep their jobs on disk: give %s with a directory", c.Spelling("binlog-dir"))
	c.refuse(c.NoFsync, "no-fsync", majority)
	c.refuse(!c.NoFsync && c.FsyncEvery > 0, "fsync-ms", majority+", or give 0")
	c.refuse(k.New && len(k.Join) > 0, "cluster-new", "a server is the first of a new cluster or joins another: leave --cluster-new or --cluster-join out")
	c.refuse(len(k.Bootstrap) > 0 && (k.New || len(k.Join) > 0 || k.Standby), "cluster-bootstrap", "it decides by itself whether to make a cluster or to join one: leave --cluster-new, --cluster-join and --cluster-standby out")
	c.refuse(k.Standby && k.New, "cluster-standby", "the first server of a cluster has to vote: leave one of --cluster-standby and --cluster-new out")
	switch {
	case k.Advertise != "":
		c.clusterAddresses("cluster-advertise", []string{k.Advertise})
	case isEverywhere(k.Address.Host):
		c.refuse(true, "cluster-listen", "the others cannot connect to %q: give --cluster-advertise with this machine's name or address, as in jobs1.example.com:%s", k.Listen, k.Address.Port)
	default:
		k.Advertise = k.Listen
	}
	c.refuse(len(k.Bootstrap) > 0 && k.Advertise != "" && !slices.Contains(k.Bootstrap, k.Advertise), "cluster-bootstrap", "the list lacks this server's own address %q: add it, or give --cluster-advertise with the address in the list", k.Advertise)
	c.validateNode()
	c.validateClusterTLS()
}

// ClusterAddresses returns the addresses that other servers of the cluster connect to.
func (c *Config) ClusterAddresses() []Address {
	if c.Cluster.Listen == "" {
		return nil
	}
	return []Address{c.Cluster.Address}
}

// validateNode fills Node in.
func (c *Config) validateNode() {
	k := &c.Cluster
	remedy := ""
	if k.Node == "" {
		host, _ := os.Hostname()
		k.Node, remedy = strings.ToLower(host), ": give --cluster-node with another, as in jobs1"
	}
	err := transport.ValidName(k.Node)
	c.refuse(err != nil, "cluster-node", "%v%s", err, remedy)
}

// validateClusterTLS refuses plaintext on addresses that other machines can reach, unless
// Plaintext is set.
func (c *Config) validateClusterTLS() {
	k := &c.Cluster
	var have, want string
	for _, f := range []struct{ flag, file string }{{"cluster-cert", k.Cert}, {"cluster-key", k.Key}, {"cluster-ca", k.CA}} {
		if f.file != "" {
			have = f.flag
		} else {
			want = f.flag
		}
	}
	c.refuse(have != "" && want != "", have, "it needs --%s as well: give --cluster-cert, --cluster-key and --cluster-ca, or none of them", want)
	c.refuse(have != "" && want == "" && k.Plaintext, "cluster-plaintext", "it contradicts --%s: leave one of the two out", have)
	c.refuse(have == "" && !k.Plaintext && !isLoopback(k.Address.Host), "cluster-listen", "anybody that can connect to %q could take over the cluster: give --cluster-cert, --cluster-key and --cluster-ca, or --cluster-plaintext on a private network", k.Listen)
}

// clusterAddresses reads a list of HOST:PORT. One value may hold several, separated by
// commas. It returns nil if one is bad.
func (c *Config) clusterAddresses(flag string, list []string) (out []string) {
	for _, given := range list {
		for a := range strings.SplitSeq(given, ",") {
			a = strings.TrimSpace(a)
			host, port, err := net.SplitHostPort(a)
			n := 0
			if err == nil {
				n, err = LookupPort(port)
			}
			empty := host == "" && flag != "cluster-listen" || n == 0
			if err != nil || empty {
				c.refuse(true, flag, "%q is not the address of a cluster's server: give HOST:PORT, as in %s", a, clusterAddress)
				return nil
			}
			again := slices.Contains(out, a)
			c.refuse(again && flag == "cluster-bootstrap", flag, "%q is in the list twice: name each server once", a)
			if !again {
				out = append(out, a)
			}
		}
	}
	return out
}

// isEverywhere reports whether a host stands for all addresses of the machine.
func isEverywhere(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

// isLoopback reports whether only this machine can connect to a host.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
