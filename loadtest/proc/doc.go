// Package proc deals with the other processes of a load test: it starts them
// pinned to cores, keeps the end of what they print, and reads what CPU and
// memory they use.
//
// It knows nothing of servers and loads, and imports none of the load tester's
// packages. What differs between systems is in usage_linux.go, where every
// figure is exact, and usage_other.go, where they are as good as ps(1) has them.
package proc
