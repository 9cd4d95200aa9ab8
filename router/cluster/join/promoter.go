package join

import (
	"context"
	"log/slog"
	"time"

	"polystalk/router/cluster"
)

// A Promoter has nodes vote that have caught up, at the node that leads: a node that votes before
// it has would be in the way of a majority.
type Promoter struct {
	Node  Node
	Log   *slog.Logger
	Every time.Duration // from one look to the next; zero: a second

	seen   map[uint64]int // at how many looks in a row each had what was committed at the one before
	commit uint64         // up to where that was, at the last look
	term   uint64         // of it
	told   map[uint64]string
}

// looksNeeded in a row a node must have had all that was committed at the one before.
const looksNeeded = 2

// Run looks until the context ends.
func (p *Promoter) Run(ctx context.Context) {
	every := p.Every
	if every == 0 {
		every = time.Second
	}
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		st, err := p.Node.Status(ctx)
		if err != nil {
			continue // it is starting, or ends
		}
		for _, one := range p.look(&st) {
			p.promote(ctx, one)
		}
	}
}

// look takes in how far the others are, and gives those that have caught up.
func (p *Promoter) look(s *cluster.Status) (ready []cluster.Member) {
	if !s.Leads || s.Term != p.term || p.seen == nil {
		p.seen, p.told = map[uint64]int{}, map[uint64]string{}
		p.commit, p.term = s.Commit, s.Term
		return nil
	}
	seen := map[uint64]int{}
	for _, one := range s.Members.List {
		peer := peerOf(s, one.ID)
		if one.Voter || one.Standby || peer == nil || !peer.Active || peer.Match == 0 || peer.Match < p.commit {
			continue
		}
		if seen[one.ID] = p.seen[one.ID] + 1; seen[one.ID] >= looksNeeded {
			ready = append(ready, one)
		}
	}
	p.seen, p.commit = seen, s.Commit
	return ready
}

// promote has a node vote.
func (p *Promoter) promote(ctx context.Context, one cluster.Member) {
	ctx, cancel := context.WithTimeout(ctx, changeFor)
	defer cancel()
	switch err := p.Node.Change(ctx, cluster.Change{Kind: cluster.Promote, Member: one}); {
	case err == nil:
		p.Log.Info("the server has caught up, and votes from now on", "node", one.Name)
	case p.told[one.ID] != err.Error():
		p.told[one.ID] = err.Error()
		p.Log.Warn("a server that has caught up cannot be had vote; trying again", "node", one.Name, "err", err)
	}
}
