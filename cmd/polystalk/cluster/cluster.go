// Package cluster has the commands of polystalk about servers that keep the same jobs.
package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"polystalk/cmd/polystalk/api"
	"polystalk/cmd/polystalk/fault"
	"polystalk/cmd/polystalk/output"
	"polystalk/cmd/polystalk/views"
	"polystalk/codec/admin"
)

// A Program is the one that the commands are part of.
type Program interface {
	// Choose says which server is asked, in place of the flag.
	Choose(server string)
	// Timeout is how long an answer may take.
	Timeout() time.Duration
	// Ask sends a request to the server.
	Ask(ctx context.Context, what string, r api.Request) (api.Answer, error)
	// Show prints a document as the flags want it.
	Show(document []byte, view output.View) error
}

// socketName is where a server's directory has the socket that its operators ask.
const socketName = "cluster.sock"

// Command is the command cluster, with all that stand below it.
func Command(p Program) *cobra.Command {
	dir := ""
	all := &cobra.Command{
		Use: "cluster", Short: "look at and change servers that keep the same jobs (polystalkd's --cluster-listen)",
		Long: `Any of the servers can be asked at the socket in its directory, by --dir on its machine,
which hands on to the one that leads what only that one can do. By --server a server
answers for itself; changes take a token with the role admin then.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return fault.New(fault.Usage, "cluster: what is to be done is missing: see polystalk cluster --help")
			}
			return fault.New(fault.Usage, "cluster: unknown command %q: see polystalk cluster --help for those there are", args[0])
		},
		RunE: func(*cobra.Command, []string) error { return nil },
	}
	all.PersistentFlags().StringVar(&dir, "dir", "", "ask the server that runs on this directory, its -b, in place of --server")
	choose := func(do func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
		return func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("dir") {
				path, err := filepath.Abs(dir)
				if err != nil || dir == "" {
					return fault.New(fault.Usage, "--dir %q is no directory: give the one that the server has by -b", dir)
				}
				awaitSocket(cmd.Context(), path)
				p.Choose("unix:" + filepath.Join(path, socketName))
			}
			return do(cmd.Context(), args)
		}
	}
	all.AddCommand(
		&cobra.Command{
			Use: "status", Short: "list the servers, and who leads; 1: none does", Args: exactly(),
			RunE: choose(func(ctx context.Context, _ []string) error { return status(ctx, p) }),
		},
		&cobra.Command{
			Use: "remove SERVER", Short: "remove a server from the cluster", Args: exactly("SERVER"),
			Long: `What a removed server has is of no use to the cluster any more, nor is its name kept: one
with an empty directory can come in its place by --cluster-join. The server that leads
is not removed: have another one lead first, by cluster transfer. Nor is one without which
no majority of those that vote could be reached: start or remove those that are down first.`,
			RunE: choose(func(ctx context.Context, args []string) error {
				return change(ctx, p, api.Request{Method: "DELETE", Path: memberPath(args[0])})
			}),
		},
		&cobra.Command{
			Use: "promote SERVER", Short: "let a standby server vote (--cluster-standby)", Args: exactly("SERVER"),
			RunE: choose(func(ctx context.Context, args []string) error {
				return change(ctx, p, api.Request{Method: "POST", Path: memberPath(args[0]) + "/promote"})
			}),
		},
		&cobra.Command{
			Use: "transfer [SERVER]", Short: "have another server lead, the one that has most if none is named", Args: exactly("[SERVER]"),
			Long: `Connections of clients are closed, and served by the other at once: nothing is lost, and
jobs that workers have are ready again. Nothing changes if a SERVER that is named cannot be
reached, has a full disk, or does not catch up in time.`,
			RunE: choose(func(ctx context.Context, args []string) error {
				var to admin.ClusterTransfer
				if len(args) > 0 {
					to.Node = args[0]
				}
				return transfer(ctx, p, to)
			}),
		},
		&cobra.Command{
			Use: "backup OUT", Short: "write all jobs to a directory that a server starts from, with --dir", Args: exactly("OUT"),
			Long: `OUT must be empty or not exist. It holds what was acknowledged until the command ends, and
is the directory of a server that is alone: polystalkd -b OUT. The servers go on meanwhile.`,
			RunE: func(cmd *cobra.Command, args []string) error {
				return backup(cmd.Context(), p.Timeout(), dir, args[0], cmd.OutOrStdout())
			},
		},
		recoverCommand(),
	)
	return all
}

// recoverCommand is the command recover-alone.
func recoverCommand() *cobra.Command {
	force := false
	c := &cobra.Command{
		Use: "recover-alone DIR", Short: "make a stopped server's directory one of a server that is alone: the last resort", Args: exactly("DIR"),
		Long: `For when a majority of those that vote is lost for good, and nothing else helps: all that
is in DIR counts from then on, and what only the lost ones had is lost. The others must
never be started again on what they have. It asks the others first, and refuses while
those that answer are a majority with this server: exit code 1.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return recoverAlone(cmd.Context(), args[0], force, cmd.OutOrStdout())
		},
	}
	c.Flags().BoolVar(&force, "force", false, "go on although other servers answer")
	return c
}

func memberPath(node string) string { return "/cluster/members/" + url.PathEscape(node) }

// exactly wants these arguments; one in brackets may be left out.
func exactly(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) > len(names):
			return fault.New(fault.Usage, "cluster %s: unknown argument %q: the use is %s", cmd.Name(), args[len(names)], cmd.UseLine())
		case len(args) < len(names) && names[len(args)][0] != '[':
			return fault.New(fault.Usage, "cluster %s: %s is missing: the use is %s", cmd.Name(), names[len(args)], cmd.UseLine())
		}
		return nil
	}
}

// status shows the cluster. That no server leads is the end that a script can see.
func status(ctx context.Context, p Program) error {
	a, err := p.Ask(ctx, "tell of a cluster", api.Request{Method: "GET", Path: "/cluster"})
	if err != nil {
		return err
	}
	var k admin.Cluster
	if err := json.Unmarshal(a.Document, &k); err != nil {
		return fault.New(fault.System, "the server's answer cannot be read: %v: is it of another version?", err)
	}
	if err := p.Show(a.Document, views.Cluster); err != nil {
		return err
	}
	if k.Leader == nil {
		return fault.New(fault.NotDone, "no server leads, as far as %s knows: clients wait until a majority of those that vote can talk to each other", k.Node)
	}
	return nil
}

// leaderWithin is how long another server may take to be known as the one that leads, to the
// one that is asked.
const leaderWithin = 10 * time.Second

// transfer has another server lead, and shows the cluster once it does, as the one that is asked
// knows: that may be the one that begins anew.
func transfer(ctx context.Context, p Program, to admin.ClusterTransfer) error {
	if _, err := p.Ask(ctx, "change a cluster", api.Request{Method: "POST", Path: "/cluster/transfer", JSON: to}); err != nil {
		return err
	}
	for until := time.Now().Add(leaderWithin); ; {
		a, err := p.Ask(ctx, "tell of a cluster", api.Request{Method: "GET", Path: "/cluster"})
		var k admin.Cluster
		if err == nil {
			err = json.Unmarshal(a.Document, &k)
		}
		known := err == nil && k.Leader != nil
		switch {
		case known && (to.Node == "" || *k.Leader == to.Node):
			return p.Show(a.Document, views.Cluster)
		case !time.Now().After(until):
		case known:
			return fault.New(fault.NotDone, "%s leads, and not %s, whose turn it was: ask again", *k.Leader, to.Node)
		default:
			return fault.New(fault.NotDone, "the server that led does no more, and none that does is known yet: polystalk cluster status shows who does")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// change asks for a change, and shows the cluster as it is then.
func change(ctx context.Context, p Program, r api.Request) error {
	a, err := p.Ask(ctx, "change a cluster", r)
	if err != nil {
		return err
	}
	return p.Show(a.Document, views.Cluster)
}

// A server that has led begins anew once another leads, and has no socket meanwhile.
const (
	stateName = "cluster.state" // it is there if the directory is a member's
	anewMost  = 3 * time.Second
	anewLook  = 20 * time.Millisecond
)

// awaitSocket waits for the server on a member's directory, if that is about to begin anew: who
// asks right after a change of the leader would be told that there is none. Who asks then is told
// what else is wrong.
func awaitSocket(ctx context.Context, dir string) {
	if _, err := os.Stat(filepath.Join(dir, stateName)); err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, anewMost)
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
		case <-time.After(anewLook):
		}
	}
}
