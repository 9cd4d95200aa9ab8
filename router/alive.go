package router

import (
	"context"
	"errors"
	"fmt"
	"time"

	"polystalk/router/direct"
	"polystalk/shard"
)

// AliveWithin is how long a loop may take for its turn, and a shard until it can be owned,
// of a server that is alive.
const AliveWithin = time.Second

// Alive reports whether the server gets on: every event loop has a turn, and every shard
// can be owned, within AliveWithin and before ctx ends. Else the error names those that do
// not. A server that is being started, and reads its journal, is alive. It may be called
// by anyone but a loop, at any time; a call is a wake-up of each loop and a visit to each
// shard.
func (s *Server) Alive(ctx context.Context) error {
	if !s.started.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, AliveWithin)
	defer cancel()
	loops := make(chan error, 1)
	go func() { loops <- s.reactor.Alive(ctx) }()
	var stuck []int
	caller := direct.New(s.host.Map, s.host.Clock)
	for i := range s.host.Map.Shards() {
		if !caller.Visit(ctx, i, func(*shard.Shard) {}) {
			stuck = append(stuck, i)
		}
	}
	err := <-loops
	if stuck != nil {
		err = errors.Join(err, fmt.Errorf("the shards %v could not be owned", stuck))
	}
	return err
}
