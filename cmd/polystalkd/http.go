package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"strings"
	"time"

	"polystalk/cmd/internal/program"
	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
	"polystalk/cmd/polystalkd/listen"
	"polystalk/cmd/polystalkd/member"
	wire "polystalk/codec/admin"
	"polystalk/router"
	"polystalk/router/access"
	web "polystalk/router/http"
)

// httpStopWait bounds the wait for operators' requests at shutdown. The rest of shutdownWait is
// for clients of the queue.
const httpStopWait = 300 * time.Millisecond

// operators serves operators by HTTP. The zero value serves none.
type operators struct {
	server *web.API
	pair   *certificate   // nil: no TLS
	of     *member.Member // nil: no cluster
	log    *logger
}

// serveHTTP serves operators on the listeners until close, and through the cluster if of is not
// nil. It serves also while the journal is read. A reload reads certificates again. ids may be nil.
// Errors are faults.
func serveHTTP(c *config.Config, srv *router.Server, ids *access.Identities, of *member.Member, clients *clientTLS, ls []net.Listener, reloads *reloader, log *logger) (*operators, error) {
	o := &operators{of: of, log: log}
	if of != nil {
		reloads.parts = append(reloads.parts, func(*config.Config) (func(), error) { return func() {}, of.Reload() })
	}
	if len(ls) == 0 {
		for _, origin := range c.UnservedHTTP() {
			log.Warn(origin + " has no effect, since HTTP is not served: give " + c.Spelling("http") + " with an address, or leave it out")
		}
		if of == nil {
			return o, nil
		}
	}
	var err error
	if o.pair, err = openCertificate(c.HTTP.Cert, c.HTTP.Key, c.Origin("http-tls-cert")); err != nil {
		return nil, err
	}
	files, err := consoleFiles(c)
	if err != nil {
		return nil, err
	}
	reloads.parts = append(reloads.parts, o.prepare)
	options := web.Options{
		Operator: srv.Operator(), Log: log.Logger, Level: log.Level,
		Version: program.Version, Speaks: "beanstalkd " + config.Spoken + ", gearmand " + config.SpokenGearman,
		Access: ids, Rules: rules(c),
		HistoryTubes: c.HTTP.HistoryTubes, Peers: peers(c), Console: files,
		MetricsTubes: c.HTTP.MetricsTubes, MetricsMatch: c.HTTP.MetricsMatch,
		Settings: reloads.settings, CertificateEnds: func() map[string]time.Time { return certificateEnds(o.pair, clients) },
		Reload: reloads.reloadForOperators,
	}
	if of != nil {
		options.Elsewhere = of.Elsewhere()
	}
	if o.server, err = web.New(options); err != nil {
		return nil, fault.New(fault.Usage, "%s: %v", c.Origin("http-origin"), err)
	}
	for _, l := range ls {
		anonymous := c.AnonymousOn(l.Addr())
		log.Info("serving HTTP", "listen", listen.Names([]net.Listener{l})[0], "scheme", c.HTTP.Scheme(), "access", cmp.Or(c.AccessFile, "none"), "anonymous", cmp.Or(anonymous, "by the access file"))
		l = srv.Balanced(l)
		if o.pair != nil {
			l = tls.NewListener(l, o.pair.config())
		}
		go func() {
			if err := o.server.Serve(l, web.Door{Anonymous: anonymous}); err != nil {
				log.Error("HTTP is no longer served", "listen", l.Addr().String(), "err", err)
			}
		}()
	}
	if of != nil {
		if err := of.OpenControl(o.server); err != nil {
			return nil, fault.New(fault.Journal, "%s: %v", c.Origin("binlog-dir"), err)
		}
	}
	return o, nil
}

// checkHTTP reads the files that HTTP needs. It does so even if c has no HTTP address, because
// the service manager may pass sockets.
func checkHTTP(c *config.Config) error {
	if _, err := consoleFiles(c); err != nil {
		return err
	}
	_, err := openCertificate(c.HTTP.Cert, c.HTTP.Key, c.Origin("http-tls-cert"))
	return err
}

// consoleFiles returns a function that finds the console's files in a folder; nil: the server
// uses the files in the program.
func consoleFiles(c *config.Config) (find func(name string) *web.File, err error) {
	if c.HTTP.ConsoleDir == "" {
		return nil, nil
	}
	if find, err = web.ConsoleDir(c.HTTP.ConsoleDir); err != nil {
		return nil, fault.New(fault.Usage, "%s: %v", c.Origin("http-console-dir"), err)
	}
	return find, nil
}

// peers returns the links of a valid c to other servers.
func peers(c *config.Config) (list []wire.Peer) {
	for _, peer := range c.HTTP.Peers {
		name, address, _ := strings.Cut(peer, "=")
		list = append(list, wire.Peer{Name: name, URL: address})
	}
	return list
}

// prepare is a reloadable. It reads the files of TLS again if the server had any at its
// start.
func (o *operators) prepare(next *config.Config) (apply func(), err error) {
	var all fault.Faults
	var changes []func()
	add := func(change func(), err error, format string, args ...any) {
		if err != nil {
			all = append(all, fault.New(fault.Usage, format+": %v", append(args, err)...))
		}
		changes = append(changes, change)
	}
	if o.pair != nil {
		use, err := o.pair.prepare()
		all = append(all, fault.All(err)...)
		changes = append(changes, use)
	}
	// Validate has not found the faults of these.
	set, err := o.server.Prepare(rules(next))
	add(set, err, "%s", next.Origin("http-origin"))
	set, err = o.server.PrepareMetrics(next.HTTP.MetricsTubes, next.HTTP.MetricsMatch)
	add(set, err, "%s", next.Origin("http-metrics-match"))
	return func() {
		for _, change := range changes {
			change()
		}
		o.server.SetHistory(next.HTTP.HistoryTubes)
		if o.pair != nil { // the reloader logs settings only
			o.log.Info("the certificate was read again", "until", o.pair.until())
		}
	}, all.Err()
}

// rules returns the trusted proxies, hosts and origins, and the part of bodies that is shown.
func rules(c *config.Config) web.Rules {
	bodies, _ := access.ParseBodies(c.HTTP.Bodies) // Validate has checked it
	return web.Rules{Hosts: c.HTTP.Hosts, Origins: c.HTTP.Origins, Proxies: c.HTTP.ProxyNetworks, Prefix: c.HTTP.Prefix, Bodies: bodies}
}

// hasFiles reports whether there are files to read again.
func (o *operators) hasFiles() bool {
	return o.pair != nil || o.of != nil && o.of.HasFiles()
}

// stop refuses new operations, and waits for the operations in progress.
func (o *operators) stop(ctx context.Context) {
	if o.server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, httpStopWait)
	defer cancel()
	o.server.Stop(ctx)
}

// close ends all connections.
func (o *operators) close() {
	if o.server != nil {
		o.server.Close()
	}
}
