// Package web is how requests by HTTP come in: who may connect, who asks, what he may do,
// how much at a time. What is served it does not know: package api gives it the routes.
//
//	listener ─► connections (at most 128) ─► net/http ─► Server.ServeHTTP
//	                                                        │ token, pace       entry.go, pace.go
//	                                                        │ Host, origin      hosts.go
//	                                                        │ route, role       route.go, entry.go
//	                                                        │ heavy, body, key  heavy.go, body.go, idempotency.go
//	                                                        ▼
//	                                                Route.Handler(*Call)
//
// Where this server follows another of its cluster, a request for what it has not is handed on
// instead of handled, once it is known who asks and that he may (elsewhere.go), and is answered
// there for whom this server has let in (door.go), which nobody but a server of the cluster can say.
//
// It is off the path of the protocols: it has goroutines of its own. It is there before the
// journal is read, so that probes can say how far that is. GET changes nothing; what changes
// something is audited.
package web
