// Package web serves operators by HTTP: probes, metrics and the JSON API. README.md beside
// it is the guide for who uses them.
//
//	listener ─► connections (at most 128) ─► net/http ─► Server.ServeHTTP
//	                                                        │ Host, origin      hosts.go
//	                                                        │ route, role       routes.go, entry.go
//	                                                        │ heavy, body, key  heavy.go, body.go, idempotency.go
//	                                                        ▼
//	                                        a handler ─► admin.Operator ─► shards
//
// It is off the path of the protocols: it has goroutines of its own, and all it knows of
// the server is package admin; package exposition shows tubes as metrics. It is there before the journal is read, so that probes can
// say how far that is.
//
// Every route stands in one table with the role that it needs (routes.go); there is no
// other way to add one. GET changes nothing. What changes something is audited, and
// answered once the journal has acknowledged it.
//
// Libraries: prometheus/client_golang for /metrics, since its output is what scrapers are
// made for.
package web
