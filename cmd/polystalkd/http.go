package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"polystalk/cmd/internal/release"
	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
	"polystalk/cmd/polystalkd/listen"
	"polystalk/cmd/polystalkd/logging"
	wire "polystalk/codec/admin"
	"polystalk/router"
	"polystalk/router/access"
	"polystalk/router/web"
)

// httpStopWait bounds the operations of operators that are under way when the server ends:
// the rest of shutdownWait is for the clients of the queue.
const httpStopWait = 300 * time.Millisecond

// operators are served by HTTP. The zero value serves nobody.
type operators struct {
	server *web.Server
	tokens *access.Tokens // nil: there are none
	log    *logging.Logger
}

// serveHTTP serves operators on the listeners until close, whatever the server does
// meanwhile. Their tokens are read again by reloads. Errors are faults.
func serveHTTP(c *config.Config, srv *router.Server, ls []net.Listener, reloads *reloader, log *logging.Logger) (*operators, error) {
	o := &operators{log: log}
	if len(ls) == 0 {
		return o, nil
	}
	if err := o.openTokens(c); err != nil {
		return nil, err
	}
	secure, err := certificates(c)
	if err != nil {
		return nil, err
	}
	if o.tokens != nil {
		reloads.parts = append(reloads.parts, o.prepareTokens)
	}
	o.server, err = web.New(web.Options{
		Operator: srv.Operator(), Log: log.Logger, Level: log.Level,
		Version: release.Version, Speaks: "beanstalkd " + config.Spoken + ", gearmand " + config.SpokenGearman,
		Tokens: o.tokens, Hosts: c.HTTP.Hosts, Origins: c.HTTP.Origins, Proxies: c.HTTP.ProxyNetworks,
		Settings: func() []wire.Setting { return shownSettings(reloads.settings()) },
	})
	if err != nil {
		return nil, fault.New(fault.Usage, "%s: %v", c.Origin("http-origin"), err)
	}
	for _, l := range ls {
		anonymous, err := c.HTTP.AnonymousOn(l.Addr())
		if err != nil {
			return nil, fault.New(fault.Usage, "%s: %v", c.Origin("http-anonymous"), err)
		}
		log.Info("serving HTTP", "listen", listen.Names([]net.Listener{l})[0], "scheme", c.HTTP.Scheme(), "tokens", o.tokens != nil, "anonymous", anonymous.String())
		if secure != nil {
			l = tls.NewListener(l, secure)
		}
		go func() {
			if err := o.server.Serve(l, anonymous); err != nil {
				log.Error("HTTP is no longer served", "listen", l.Addr().String(), "err", err)
			}
		}()
	}
	return o, nil
}

// openTokens reads the file of tokens, if there is one.
func (o *operators) openTokens(c *config.Config) (err error) {
	if c.HTTP.TokensFile == "" {
		return nil
	}
	if o.tokens, err = access.OpenTokens(c.HTTP.TokensFile); err != nil {
		return fault.New(fault.Usage, "%s: %v", c.Origin("http-tokens-file"), err)
	}
	if o.log != nil && o.tokens.Exposed() {
		o.log.Warn("everybody on this machine may read the file of tokens: chmod o-r", "file", c.HTTP.TokensFile)
	}
	return nil
}

// checkHTTP reads the files that HTTP needs, as a start would.
func checkHTTP(c *config.Config) error {
	if len(c.HTTP.Addresses) == 0 {
		return nil
	}
	if err := new(operators).openTokens(c); err != nil {
		return err
	}
	_, err := certificates(c)
	return err
}

// certificates is how TLS is spoken; nil: not at all.
func certificates(c *config.Config) (*tls.Config, error) {
	if c.HTTP.Cert == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(c.HTTP.Cert, c.HTTP.Key)
	if err != nil {
		return nil, fault.New(fault.Usage, "%s: %q and its key %q cannot be used: %v: give two files in PEM that this user may read and that belong together",
			c.Origin("http-tls-cert"), c.HTTP.Cert, c.HTTP.Key, err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}, nil
}

// shownSettings are what is in effect, for those who ask.
func shownSettings(settings []config.Setting) (list []wire.Setting) {
	for _, s := range settings {
		shown := wire.Setting{Name: s.Name, Origin: s.Origin}
		if s.Value != nil {
			shown.Value = fmt.Sprint(s.Value)
		}
		list = append(list, shown)
	}
	return list
}

// prepareTokens is a reloadable: it reads the file of tokens that there is.
func (o *operators) prepareTokens(*config.Config) (apply func(), err error) {
	put, err := o.tokens.Prepare()
	if err != nil {
		return nil, fault.New(fault.Usage, "the tokens stay as they were: %v", err)
	}
	return func() {
		put()
		o.log.Info("the tokens were read again", "tokens", o.tokens.Len())
	}, nil
}

// hasTokens reports whether there is something to reload.
func (o *operators) hasTokens() bool { return o.tokens != nil }

// reload reads the file of tokens again, if there is one.
func (o *operators) reload() {
	if o.tokens == nil {
		return
	}
	if err := o.tokens.Reload(); err != nil {
		o.log.Error("the tokens stay as they were", "signal", "SIGHUP", "err", err)
		return
	}
	o.log.Info("the tokens were read again", "signal", "SIGHUP", "tokens", o.tokens.Len())
}

// stop has no more operations begun, and waits for those under way.
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
