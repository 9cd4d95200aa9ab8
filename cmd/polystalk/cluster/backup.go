package cluster

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

	"polystalk/cmd/polystalk/api"
	"polystalk/cmd/polystalk/fault"
	"polystalk/router/cluster/directory"
)

// backupPath is where the socket of a server has the journal; it is none of the operators' API.
const backupPath = "/cluster/backup"

// dialWithin bounds the time to connect to the socket of a server.
const dialWithin = 5 * time.Second

// backup receives the journal of the cluster whose server runs on a directory into out, and says
// on w what came.
// The server has wait for its answer, and again for each part of the journal.
func backup(ctx context.Context, wait time.Duration, dir, out string, w io.Writer) error {
	if dir == "" {
		return fault.New(fault.Usage, "cluster backup: it is had from the socket in a server's directory: give that, its -b, by --dir")
	}
	path, err := filepath.Abs(filepath.Join(dir, socketName))
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: dialWithin}).DialContext(ctx, "unix", path)
		},
		DisableKeepAlives: true,
	}}
	patience := api.NewPatience(ctx, wait)
	defer patience.End()
	req, err := http.NewRequestWithContext(patience.Ctx, http.MethodGet, "http://localhost"+backupPath, nil)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fault.New(fault.System, "the server on %s cannot be asked: %v: is polystalkd running there, with --cluster-listen?", dir, patience.Cause(errors.Unwrap(err)))
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(patience.Reader(res.Body, false), 1<<10))
		return fault.New(fault.NotDone, "%s", strings.TrimSpace(string(text)))
	}
	r, err := directory.Backup(ctx, patience.Reader(res.Body, true), out, nil)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fault.New(fault.Dir, "the backup was not made: %v", err)
	}
	_, err = fmt.Fprintf(w, "%s: %d files of a journal, %d bytes, up to entry %d; polystalkd -b %s serves it, as a server that is alone\n", out, r.Segments, r.Bytes, r.LastIndex, out)
	return err
}

// recoverAlone makes the directory of a member that of a server that is alone.
func recoverAlone(ctx context.Context, dir string, force bool, w io.Writer) error {
	a, err := directory.RecoverAlone(ctx, dir, force)
	if _, is := errors.AsType[*directory.QuorumError](err); is {
		return fault.New(fault.NotDone, "%v", err)
	}
	if err != nil {
		return fault.New(fault.Dir, "%v", err)
	}
	_, err = io.WriteString(w, a.Meaning(dir))
	return err
}
