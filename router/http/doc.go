// Package http serves operators: probes, metrics, the JSON API and the console. README.md
// beside it is their guide.
//
//	listener ─► connections (at most 128) ─► net/http ─► server.ServeHTTP
//	            accept.go, connlimit.go                     │ token, role, Host, origin   serve.go, trust.go
//	                                                        │ route                       routes.go
//	                                                        │ slot, body, key             slots.go, body.go, idempotency.go
//	                                                        ▼
//	                                       handler ─► admin.Operator ─► shards
//	                                          └─► trend.Watch: history and events
//
// On a follower of a cluster, a request for the queue goes to the leader once its token and
// role are checked (proxy.go). The leader trusts what a server of the cluster says about the
// client (trust.go).
//
// All routes stand in one table with the role that each needs. openapi.json describes them,
// and the tests check each answer against it. GET changes nothing; each change is audited and
// is answered when it is durable.
//
// The package has goroutines of its own, off the path of the protocols. It serves before the
// journal is read, so that probes can report progress.
package http
