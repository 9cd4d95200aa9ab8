// Package api is what operators are served by HTTP: probes, metrics and the JSON API.
// README.md beside it is the guide for who uses them.
//
//	package web ─► routes.go ─► a handler ─► admin.Operator ─► shards
//	                   │                           ▲
//	                   └► history.go, events.go ─► watch.Watch, which looks each second
//
// Every route stands in one table with the role that it needs; a test walks it. What changes
// something is answered once the journal has acknowledged it. openapi.json describes it, and
// every answer of the tests is held against that. Package exposition shows tubes as metrics;
// streams of events, of which topics.go has the topics, are rendered from what is newest.
//
// Libraries: prometheus/client_golang for /metrics, since its output is what scrapers are
// made for.
package api
