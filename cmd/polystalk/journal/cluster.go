// Package journal has the verbs about directories of servers. "polystalk journal" inspects, checks,
// exports and repairs the journal of a stopped server, and never changes what it reads. Two verbs
// of "polystalk cluster" make the directory of a standalone server.
//
//	a verb → source (lock, survey) → replica (the jobs, where a verb needs them)
package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"polystalk/cmd/polystalk/client"
	"polystalk/router/cluster/snapshot"
)

// Codes is the part of the help about exit codes.
const Codes = `Exit codes:
  0    done; verify, inspect: the journal is whole, except perhaps for a torn end,
       which a start cuts off
  1    the journal is damaged
  5    unknown command or flag, or a missing argument
  10   a directory cannot be used: a server uses it, it does not exist, it holds
       no journal, or the one to be written is not empty
  111  the operating system refused something else
`

// backupPath is the path of the journal on a server's socket. It is not in the operators' API.
const backupPath = "/cluster/backup"

// dialMax bounds the time to connect to a socket.
const dialMax = 5 * time.Second

// Backup receives the journal of a cluster from the socket of one server, writes it to the
// directory to, and writes a summary to out. The server has timeout for its answer, and for each
// part of the journal.
func Backup(ctx context.Context, timeout time.Duration, socket, to string, out io.Writer) error {
	path, err := filepath.Abs(socket)
	if err != nil {
		return err
	}
	transport := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: dialMax}).DialContext(ctx, "unix", path)
		},
		DisableKeepAlives: true,
	}}
	patience := client.NewPatience(ctx, timeout)
	defer patience.End()
	req, err := http.NewRequestWithContext(patience.Ctx, http.MethodGet, "http://localhost"+backupPath, nil)
	if err != nil {
		return err
	}
	res, err := transport.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return client.Errorf(client.System, "the server on %s cannot be reached: %v: is polystalkd running there, with --cluster-listen?", filepath.Dir(socket), patience.Cause(errors.Unwrap(err)))
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(patience.Reader(res.Body, false), 1<<10))
		return client.Errorf(client.NotDone, "%s", strings.TrimSpace(string(text)))
	}
	r, err := snapshot.Backup(ctx, patience.Reader(res.Body, true), to, nil)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return client.Errorf(client.Dir, "the backup was not made: %v", err)
	}
	_, err = fmt.Fprintf(out, "%s: %d files of a journal, %d bytes, up to entry %d; polystalkd -b %s serves it, as a standalone server\n", to, r.Segments, r.Bytes, r.LastIndex, to)
	return err
}

// RecoverAlone turns the directory of a cluster's server into the directory of a standalone server.
func RecoverAlone(ctx context.Context, dir string, force bool, out io.Writer) error {
	a, err := snapshot.RecoverAlone(ctx, dir, force)
	if _, quorum := errors.AsType[*snapshot.QuorumError](err); quorum {
		return client.Errorf(client.NotDone, "%v", err)
	}
	if err != nil {
		return client.Errorf(client.Dir, "%v", err)
	}
	_, err = io.WriteString(out, a.Meaning(dir))
	return err
}
