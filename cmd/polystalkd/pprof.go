package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strings"
	"time"

	"polystalk/cmd/polystalkd/config"
	"polystalk/cmd/polystalkd/fault"
	"polystalk/router"
)

// listenPprof opens the listener of --pprof, nil when it was not given.
func listenPprof(c *config.Config) (net.Listener, error) {
	if c.PprofAddr == "" {
		return nil, nil
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", c.PprofAddr)
	if err != nil {
		return nil, fault.New(fault.System, "%s: %q cannot be listened on (%v): choose another address or port", c.Origin("pprof"), c.Pprof, fault.Cause(err))
	}
	return l, nil
}

// A profiler serves net/http/pprof's pages and /counters. The zero value does
// nothing.
type profiler struct{ server *http.Server }

// startPprof serves on l, which may be nil, until close.
func startPprof(l net.Listener, srv *router.Server, log *slog.Logger) *profiler {
	if l == nil {
		return &profiler{}
	}
	mux := http.NewServeMux() // not the default one, which any package may add to
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /counters", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		for _, c := range srv.Counters() {
			fmt.Fprintln(w, c.Name, c.Value)
		}
	})
	p := &profiler{&http.Server{
		Handler:           askedHere(mux),
		ReadHeaderTimeout: 5 * time.Second,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}}
	log.Info("profiling", "pprof", "http://"+l.Addr().String()+"/debug/pprof/", "counters", "http://"+l.Addr().String()+"/counters")
	go func() {
		if err := p.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Warn("profiles are no longer served", "err", err)
		}
	}()
	return p
}

// askedHere refuses what a page of another site has a browser of this machine ask
// for: profiles slow the server down, and a site that gives its own name this
// machine's address could read them.
func askedHere(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = strings.Trim(r.Host, "[]")
		}
		ip, err := netip.ParseAddr(host)
		here := host == "localhost" || err == nil && ip.IsLoopback()
		switch site := r.Header.Get("Sec-Fetch-Site"); {
		case !here, site != "" && site != "none" && site != "same-origin":
			http.Error(w, "ask for it as localhost, on this machine", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// close ends it at once; a profile that is being taken is cut off.
func (p *profiler) close() {
	if p.server != nil {
		p.server.Close()
	}
}
