package cli

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"polystalk/cmd/internal/program"
	"polystalk/cmd/polystalk/client"
	"polystalk/cmd/polystalk/journal"
	"polystalk/codec/admin"
)

// serverVerbs returns the verbs about servers and their connections.
func (a *App) serverVerbs() []verb {
	var (
		live, holding, cancel bool
		protocol, tube        string
		limit, entries        int
	)
	return []verb{
		{
			use: "health", short: "check whether the server is healthy; exit code 0: it is, 1: it is not", reads: true, cannot: "report its health",
			long: `Asks /readyz, like a load balancer: the server is not healthy while it reads the journal,
after the journal has failed, and while it stops. With --live it asks /livez,
like a supervisor that would restart the server.`,
			flags: func(fs *pflag.FlagSet) { fs.BoolVar(&live, "live", false, "check only whether its threads answer") },
			do: func(r *run) error {
				q := client.Request{Method: "GET", Path: "/readyz", Query: url.Values{"verbose": {""}}, Probe: true}
				if live {
					q.Path = "/livez"
				}
				a, err := r.server.Ask(r.ctx, q)
				if err == nil {
					err = r.printer.Show(a.Document, client.HealthView)
				}
				if err != nil || a.Status == http.StatusOK {
					return err
				}
				var h admin.Health
				_ = a.Read(&h) // it has already been shown
				return client.Errorf(client.NotDone, "the server is not healthy (%s): see its log", h.State)
			},
		},
		{
			use: "conns", aliases: []string{"connections"}, short: "list connections, the oldest first", reads: true, cannot: "list connections",
			examples: "polystalk conns --holding\npolystalk conns --tube mail -o wide",
			flags: func(fs *pflag.FlagSet) {
				a.pathFlag(fs)
				fs.StringVar(&protocol, "protocol", "", "beanstalkd or Gearman")
				fs.StringVar(&tube, "tube", "", "connections that use or watch this tube")
				fs.BoolVar(&holding, "holding", false, "connections that hold jobs; with --tube, jobs of this tube")
				fs.IntVar(&limit, "limit", 0, "show at most this number; 0: all")
			},
			do: func(r *run) error {
				query := url.Values{}
				if protocol != "" {
					query.Set("protocol", protocol)
				}
				if holding {
					query.Set("holding", "true")
				}
				if r.changed("tube") {
					name, err := r.tubeName(tube)
					if err != nil {
						return err
					}
					query.Set("tube", name)
				}
				_, err := r.list(client.Request{Path: "/connections", Query: query, Limit: limit}, client.ConnectionsView)
				return err
			},
		},
		{
			use: "kill ID...", short: "close connections; their jobs become ready", long: idsHelp, cannot: "close connections",
			do: func(r *run) error {
				return r.each("connection", "kill", client.Request{Method: "DELETE", Path: "/connections/{id}"})
			},
		},
		{
			use: "ops [ID]", aliases: []string{"operations"}, short: "list bulk operations, the newest first, or show or cancel one", cannot: "list operations",
			flags: func(fs *pflag.FlagSet) { fs.BoolVar(&cancel, "cancel", false, "cancel it; changes so far remain") },
			path:  "/operations", view: client.OperationsView,
			request: func(r *run, q *client.Request) (err error) {
				if len(r.args) > 0 {
					q.Path = "/operations/{id}"
					r.view.Rows, r.view.Columns = "", slices.Concat(r.view.Columns, r.view.Wide)
					q.ID, err = readID(r.args[0])
				} else if cancel {
					err = client.Errorf(client.Usage, "ops: the operation to cancel is missing: give its ID")
				}
				if cancel {
					q.Method = "DELETE"
				}
				return err
			},
		},
		{
			use: "audit", short: "list the changes and their authors, the newest first", reads: true, cannot: "report the audit log",
			flags: func(fs *pflag.FlagSet) {
				fs.IntVar(&entries, "limit", 100, "show at most this number, up to 1,000")
			},
			path: "/audit", view: client.AuditView,
			request: func(_ *run, q *client.Request) error {
				q.Query = url.Values{"limit": {strconv.Itoa(entries)}}
				return nil
			},
		},
		{
			use: "drain [STATE]", short: "stop accepting new jobs (on), or accept them again (off); without STATE, show the state", values: []string{"on", "off"},
			cannot: "drain and take jobs again", path: "/drain", view: client.DrainView,
			request: func(r *run, q *client.Request) error {
				if len(r.args) == 0 {
					return nil
				}
				if q.Method = map[string]string{"on": "PUT", "off": "DELETE"}[r.args[0]]; q.Method == "" {
					return client.Errorf(client.Usage, "drain: %q is neither on nor off: give one of them", r.args[0])
				}
				return nil
			},
		},
		{
			use: "reload", short: "make the server read its configuration again; it applies all changes or none", cannot: "reload",
			method: "POST", path: "/reload", view: client.ReloadView,
		},
		{
			use: "log-level [LEVEL]", short: "show or set the lowest level that the server logs: debug, info, warn or error",
			values: []string{"debug", "info", "warn", "error"}, cannot: "set the level of its log", path: "/log-level", view: client.LogLevelView,
			request: func(r *run, q *client.Request) error {
				if len(r.args) > 0 {
					q.Method, q.JSON = "PUT", admin.LogLevel{Level: r.args[0]}
				}
				return nil
			},
		},
		a.clusterVerb(),
	}
}

// clusterVerb has the verbs about the servers of a cluster.
func (a *App) clusterVerb() verb {
	var (
		dir   string
		force bool
	)
	all := []verb{
		{
			use: "status", short: "list the servers and the leader; exit code 1: there is no leader", reads: true,
			cannot: "report the state of a cluster", do: clusterStatus,
		},
		{
			use: "remove SERVER", short: "remove a server from the cluster", cannot: "change a cluster", view: client.ClusterView,
			long: `The cluster has no use for the data and the name of a removed server: a server with an
empty directory can take its place by --cluster-join. The leader cannot be removed: have
another server lead first, by cluster transfer. Nor can a server without which no majority
of voters could be reached: start or remove the ones that are down first.`,
			method: "DELETE", path: "/cluster/members/{node}",
		},
		{
			use: "promote SERVER", short: "let a standby server vote (--cluster-standby)", cannot: "change a cluster", view: client.ClusterView,
			method: "POST", path: "/cluster/members/{node}/promote",
		},
		{
			use: "transfer [SERVER]", short: "make another server the leader; by default the one with the longest log", cannot: "change a cluster",
			long: `The old leader closes client connections, and the new leader serves clients at once. Nothing
is lost; reserved jobs become ready. Nothing changes if SERVER cannot be reached, has a
full disk, or does not catch up in time.`,
			do: clusterTransfer,
		},
		{
			use: "backup OUT", short: "write all jobs to a directory that a server can start from, with --dir",
			long: `OUT must be empty or not exist. It holds what was acknowledged until the command ends, and
is the directory of a standalone server: polystalkd -b OUT. The servers keep running.`,
			local: func(r *run) error {
				if dir == "" {
					return r.usagef("a backup comes from the socket in a server's directory: give that directory, its -b, by --dir")
				}
				return journal.Backup(r.ctx, r.timeout, filepath.Join(dir, socketName), r.args[0], r.out)
			},
		},
		{
			use: "recover-alone DIR", short: "turn a stopped server's directory into a standalone server's: the last resort",
			long: `Only if a majority of the voters is lost permanently: the server continues with the data in
DIR, and data that only the lost servers had is lost. Never start the other servers again on
their data. The command asks them first, and refuses while this server and those that answer
are a majority: exit code 1.`,
			flags: func(fs *pflag.FlagSet) {
				fs.BoolVar(&force, "force", false, "continue even if this server and those that answer are a majority, or if the others cannot be asked")
			},
			local: func(r *run) error { return journal.RecoverAlone(r.ctx, r.args[0], force, r.out) },
		},
	}
	for i := range all {
		all[i].before = func(r *run) error {
			if !r.changed("dir") {
				return nil
			}
			path, err := filepath.Abs(dir)
			if err != nil || dir == "" {
				return client.Errorf(client.Usage, "--dir %q is not a directory: give the server's -b", dir)
			}
			awaitSocket(r.ctx, path)
			r.App.server = "unix:" + filepath.Join(path, socketName)
			return nil
		}
	}
	return verb{
		use: "cluster", short: "inspect and change a cluster (polystalkd's --cluster-listen)",
		long: `With --dir, on a server's machine, it uses the socket in that directory; the server forwards
requests that only the leader can handle. With --server, the server answers for itself, and
changes need a token with the role admin.`,
		examples: "polystalk cluster status --dir /var/lib/polystalkd\npolystalk cluster remove jobs3 --dir /var/lib/polystalkd",
		flags: func(fs *pflag.FlagSet) {
			fs.StringVar(&dir, "dir", "", "instead of --server: ask the server that runs on this directory, its -b")
		},
		verbs: all,
	}
}

// clusterStatus shows the cluster. The exit code tells scripts whether there is a leader.
func clusterStatus(r *run) error {
	var k admin.Cluster
	a, err := r.read("/cluster", "", &k)
	if err == nil {
		err = r.printer.Show(a.Document, client.ClusterView)
	}
	if err == nil && k.Leader == nil {
		err = client.Errorf(client.NotDone, "there is no leader, as far as %s knows: clients wait until a majority of the voters can reach each other", k.Node)
	}
	return err
}

// How long, and how often, clusterTransfer asks for the new leader.
const (
	leaderMax  = 10 * time.Second
	leaderPoll = 50 * time.Millisecond
)

// clusterTransfer makes another server the leader. It shows the leader, or as JSON the cluster, once
// the asked server knows the new leader. The asked server may be the old leader, which restarts.
func clusterTransfer(r *run) error {
	var to admin.ClusterTransfer
	if len(r.args) > 0 {
		to.Node = r.args[0]
	}
	if _, err := r.server.Ask(r.ctx, client.Request{Method: "POST", Path: "/cluster/transfer", JSON: to}); err != nil {
		return err
	}
	for until := time.Now().Add(leaderMax); ; {
		var k admin.Cluster
		a, err := r.read("/cluster", "", &k)
		known := err == nil && k.Leader != nil
		switch {
		case known && (to.Node == "" || *k.Leader == to.Node):
			if r.printer.IsTable() {
				return r.done(nil, "transfer: %s leads", program.Safe(*k.Leader))
			}
			return r.printer.Show(a.Document, client.ClusterView)
		case !time.Now().After(until):
		case known:
			return client.Errorf(client.NotDone, "%s leads, not %s: ask again", *k.Leader, to.Node)
		default:
			return client.Errorf(client.NotDone, "the old leader no longer leads, and the new one is not known yet: polystalk cluster status shows it")
		}
		select {
		case <-r.ctx.Done():
			return r.ctx.Err()
		case <-time.After(leaderPoll):
		}
	}
}

// Names in a server's directory: the socket for operators, and the file that only a server of a
// cluster has.
const (
	socketName = "cluster.sock"
	stateName  = "cluster.state"
)

// An old leader restarts and has no socket during that time.
const (
	restartMax  = 3 * time.Second
	restartPoll = 20 * time.Millisecond
)

// awaitSocket waits for the socket of a server that restarts after a change of the leader. In
// other cases it returns at once, and the request that follows reports the error.
func awaitSocket(ctx context.Context, dir string) {
	if _, err := os.Stat(filepath.Join(dir, stateName)); err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, restartMax)
	defer cancel()
	for ctx.Err() == nil {
		c, err := net.Dial("unix", filepath.Join(dir, socketName))
		if err == nil {
			c.Close()
			return
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED) {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(restartPoll):
		}
	}
}
