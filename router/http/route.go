package http

import (
	"net/http"

	"polystalk/router/access"
)

// A Route is a method and a path, who may use it, and what serves it.
type Route struct {
	Pattern string // as http.ServeMux reads it
	Need    access.Role
	Flags   Flags
	// Handler answers, or returns the problem that is the answer. What it has sent before
	// an error stands: the error is not sent then.
	Handler func(c *Call) error
}

// Flags are what is special about a route.
type Flags uint8

const (
	// Probe: it tells whether the server works, and nothing about jobs or tubes. Whatever asks it
	// may know the server by another name, so it is served under any Host.
	Probe Flags = 1 << iota
	// Early: it is served while the journal is read, and when the server ends.
	Early
	// Large: it takes time or memory, so one is served at a time.
	Large
	// Scrape: it is Large, and has the place of scrapes.
	Scrape
	// TakesBody: it reads the body of the request; others refuse one.
	TakesBody
	// Conditional: it looks at the header If-Match; others refuse one.
	Conditional
	// Streams: it answers by an EventStream, without an end of its own.
	Streams
	// Own: it is about this server itself, whichever of a cluster has the queue, so that it is
	// never handed on. One that is not Early is served once the journal was read.
	Own
)

// Changes reports whether the route changes something.
func (rt *Route) Changes() bool { return !safe(rt.Method()) }

// Method is the one that the pattern begins with.
func (rt *Route) Method() string {
	for i := range len(rt.Pattern) {
		if rt.Pattern[i] == ' ' {
			return rt.Pattern[:i]
		}
	}
	return ""
}

// safe reports whether a method changes nothing.
func safe(method string) bool { return method == http.MethodGet || method == http.MethodHead }
