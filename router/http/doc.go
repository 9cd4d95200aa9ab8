// Package http serves operators: probes, metrics, the JSON API and the console.
// The guide for operators is cmd/manual/guide: http-api.md, monitoring.md, console.md, security.md.
//
//	listener ─► connections (at most 128) ─► net/http ─► API.ServeHTTP
//	            limits.go                                   │ token, role, Host, origin   serve.go, auth.go
//	                                                        │ route                       routes.go
//	                                                        │ slot, body, key             limits.go, call.go, idempotency.go
//	                                                        ▼
//	                                       handler ─► admin.Operator ─► shards
//	                                          └─► trend.Watch: history and events
//
// A follower of a cluster checks the token and role of a request for the queue, and forwards
// the request to the leader (proxy.go). The leader trusts what a server of the cluster says
// about the client (auth.go).
//
// One table has all routes, each with the role that it needs (routes.go). openapi.json
// describes them, and the tests check each answer against it. GET changes nothing. Each change
// is audited, and is answered once it is durable.
//
// The package has its own goroutines, and never runs on an event loop. It serves before the
// journal is read, so that probes can report the progress.
package http
