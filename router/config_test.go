package router_test

import (
	"testing"

	"polystalk/codec/beanstalk"
	"polystalk/router"
	"polystalk/router/gearmand"
)

// The number of shards is a power of two, four to seven for each loop, and never more than
// there are slots.
func TestDefaultShards(t *testing.T) {
	for loops := 1; loops <= router.LoopsMax; loops++ {
		n := router.DefaultShards(loops)
		if n&(n-1) != 0 || n > router.ShardsMax || n < min(4*loops, router.ShardsMax) || n >= 8*loops {
			t.Fatalf("%d loops have %d shards", loops, n)
		}
	}
	c := router.Config{}.Filled()
	if want := router.DefaultLoops(); c.Loops != want || c.Shards != router.DefaultShards(want) {
		t.Errorf("%d loops and %d shards by default, want %d and %d", c.Loops, c.Shards, want, router.DefaultShards(want))
	}
}

// A body that one protocol takes can be a job of the other's.
func TestLargestBodiesAreTheSame(t *testing.T) {
	if gearmand.MaxBodyLimit != beanstalk.MaxJobSizeLimit {
		t.Errorf("%d and %d", gearmand.MaxBodyLimit, beanstalk.MaxJobSizeLimit)
	}
}
