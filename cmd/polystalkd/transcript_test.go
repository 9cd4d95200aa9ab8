package main

import (
	"fmt"
	"testing"

	"polystalk/codec/wiretest"
)

// TestTranscripts plays the written conversations against the daemon: it says
// what the reference says, with any number of shards.
func TestTranscripts(t *testing.T) {
	all, err := wiretest.Transcripts()
	if err != nil {
		t.Fatal(err)
	}
	for _, shards := range shardCounts {
		for _, tr := range all {
			if tr.SimOnly {
				continue
			}
			t.Run(fmt.Sprintf("shards=%d/%s", shards, tr.Name), func(t *testing.T) {
				t.Parallel()
				s := startDaemon(t, append(shardArgs(shards), tr.Flags...)...)
				d := &wiretest.NetDriver{Network: "tcp", Address: s.Address, Signal: s.Drain}
				defer d.Shutdown()
				if err := wiretest.Play(tr, d, wiretest.Options{}); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
