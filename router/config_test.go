package router

import (
	"testing"

	"polystalk/codec/beanstalk"
	"polystalk/router/gearmand"
)

// The number of shards is a power of two, four to seven for each loop, and never more than
// there are slots.
func TestDefaultShards(t *testing.T) {
	for loops := 1; loops <= LoopsMax; loops++ {
		n := DefaultShards(loops)
		if n&(n-1) != 0 || n > ShardsMax || n < min(4*loops, ShardsMax) || n >= 8*loops {
			t.Fatalf("%d loops have %d shards", loops, n)
		}
	}
	var c Config
	c.fill("host")
	if want := DefaultLoops(); c.Loops != want || c.Shards != DefaultShards(want) {
		t.Errorf("%d loops and %d shards by default, want %d and %d", c.Loops, c.Shards, want, DefaultShards(want))
	}
}

// A body that one protocol takes can be a job of the other's.
func TestLargestBodiesAreTheSame(t *testing.T) {
	if gearmand.MaxBodyLimit != beanstalk.MaxJobSizeLimit {
		t.Errorf("%d and %d", gearmand.MaxBodyLimit, beanstalk.MaxJobSizeLimit)
	}
}
