// Package http serves operators: probes, metrics, the JSON API and the console.
// The guide for operators is cmd/manual/guide: http-api.md, monitoring.md, console.md, security.md.
//
//	listener ─► connections (at most 128) ─► net/http ─► API.ServeHTTP
//	            limits.go                                   │ token, Host, origin, rights serve.go, auth.go, rights.go
//	                                                        │ route                       routes.go
//	                                                        │ slot, body, key             limits.go, call.go, idempotency.go
//	                                                        ▼
//	                                       handler ─► admin.Operator ─► shards
//	                                          └─► trend.Watch: history and events
//
// A follower of a cluster identifies the client of a request for the queue, and forwards the
// request to the leader (proxy.go). The leader trusts a server of the cluster with the name of
// the client, and looks up the rights in its own access file (auth.go).
//
// One table has all routes, each with what the client needs for it (routes.go). openapi.json
// describes them, and the tests check each answer against it. GET changes nothing. Each change
// is audited, and is answered once it is durable.
//
// The package has its own goroutines, and never runs on an event loop. It serves before the
// journal is read, so that probes can report the progress.
package http
