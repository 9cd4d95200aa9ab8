// Package web is how requests by HTTP come in: who may connect, who asks, what he may do,
// how much at a time. What is served it does not know: package api gives it the routes.
//
//	listener ─► connections (at most 128) ─► net/http ─► Server.ServeHTTP
//	                                                        │ Host, origin      hosts.go
//	                                                        │ route, role       route.go, entry.go
//	                                                        │ heavy, body, key  heavy.go, body.go, idempotency.go
//	                                                        ▼
//	                                                Route.Handler(*Call)
//
// It is off the path of the protocols: it has goroutines of its own. It is there before the
// journal is read, so that probes can say how far that is. GET changes nothing; what changes
// something is audited.
package web
