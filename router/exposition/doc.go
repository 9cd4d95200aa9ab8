// Package exposition shows a server and its tubes as metrics. It knows samples, and makes
// families of them; how they are asked for is package api's.
//
//	admin.Sample ───────────────────────────► Server: /metrics, by Prometheus's library
//	admin.TubeSample ──► ranking.Choice ─────┘    │ jobs, clients, journal, operators
//	               ├───────────────────► Page: /metrics/tubes, all tubes as text
//	               └───────────────────► BeanstalkdPage: the same with an exporter's names
//
// A bounded number of tubes are constant metrics of the library. All of them are text, made
// as it is sent, since the library would take seconds and a gigabyte for 50,000 of them. The
// names and labels are the same in both.
//
// There is no line _created in OpenMetrics: what counts begins with the process, which
// start_time_seconds tells once, and Prometheus keeps each such line as a series of its own
// unless it is told otherwise.
//
// Where a new figure goes: one of the server into the file of its noun, as an emitter's call
// with its name, help and labels; one of each tube into families.go, by which both pages have
// it. Then it needs its row in the guide, package api's README.md, which a test demands.
package exposition
