// Package ranking says which tubes are shown where there is only place for some: the first of
// many in an order, and a choice of the busiest that does not change all the time.
//
//	admin.TubeSample ──► Choice ──► the tubes in /metrics, the tubes with a history
//	               └──► First ──► the tubes somebody looks at
package ranking
