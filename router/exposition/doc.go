// Package exposition shows tubes as metrics: a bounded number of them, which package ranking
// chooses, as constant metrics of Prometheus's library; or all of them as text,
// made as it is sent, since that library would take seconds and a gigabyte for 50,000 of
// them. The names and labels are the same in both.
//
//	admin.TubeSample ──► ranking.Choice ──► Collect: /metrics
//	               └──────────────────► Write: /metrics/tubes
package exposition
