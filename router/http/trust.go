package http

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
)

// A Door is what holds of those who come in by a listener.
type Door struct {
	Anonymous access.Role // of who shows no token
	// Last: nothing is handed on from here, since it was handed on already.
	Last bool
	// Callers: it is for servers of the cluster alone, which say of each request who asks and
	// what he may do, and are believed. So it is Last as well.
	Callers bool
}

// doorOf is the one that a request has come in by; one of a test has come in by none.
func doorOf(r *http.Request) Door {
	if d, ok := r.Context().Value(listenerKey{}).(*Door); ok {
		return *d
	}
	return Door{}
}

// A fromServer is a connection that has come in where Callers do.
type fromServer struct{ net.Conn }

// NetConn is what it is spoken on.
func (c *fromServer) NetConn() net.Conn { return c.Conn }

// callerHeader says who asks in a request that a server hands on. It is read nowhere but behind
// a Door for Callers: what a client writes there is of no effect.
const callerHeader = "Polystalk-Caller"

// A caller is somebody whom another server has let in.
type caller struct {
	grant  access.Grant
	sees   access.Bodies
	client string // his address
	id     string // of the request, there and here
}

// text is the caller as the header has him.
func (c *caller) text() string {
	return url.Values{
		"name": {c.grant.Name}, "role": {c.grant.Role.String()}, "all-bodies": {strconv.FormatBool(c.grant.Bodies)},
		"sees": {c.sees.String()}, "client": {c.client}, "request": {c.id},
	}.Encode()
}

// callerOf reads who asks, if the request has come in where that is said; nil: a client asks.
// The error is a *admin.Problem: nobody is let in of whom nothing is said.
func callerOf(r *http.Request) (*caller, error) {
	if !doorOf(r).Callers {
		return nil, nil
	}
	c, err := readCaller(r.Header.Values(callerHeader))
	if err != nil {
		return nil, wire.BadRequest.With(callerHeader, "another server does not say who asks: "+err.Error(), "run the same version on all servers of the cluster")
	}
	return c, nil
}

// readCaller reads the values of the header.
func readCaller(texts []string) (c *caller, err error) {
	if len(texts) != 1 {
		return nil, fmt.Errorf("the header is there %d times", len(texts))
	}
	v, err := url.ParseQuery(texts[0])
	if err != nil {
		return nil, err
	}
	c = &caller{client: v.Get("client"), id: v.Get("request")}
	c.grant.Name = v.Get("name")
	if c.grant.Role, err = access.ParseRole(v.Get("role")); err != nil {
		return nil, err
	}
	if c.sees, err = access.ParseBodies(v.Get("sees")); err != nil {
		return nil, err
	}
	if c.grant.Bodies, err = strconv.ParseBool(v.Get("all-bodies")); err != nil {
		return nil, fmt.Errorf("all-bodies: %w", err)
	}
	if c.id == "" {
		return nil, fmt.Errorf("the request has no id")
	}
	return c, nil
}
