package wire

import (
	"fmt"
	"sync"
	"testing"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/conversation"
)

// TestTranscripts plays the written conversations against the daemon: it says
// what the reference says, with any number of shards.
func TestTranscripts(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	all, err := conversation.Transcripts()
	if err != nil {
		t.Fatal(err)
	}
	for _, shards := range daemon.ShardCounts {
		t.Run(fmt.Sprintf("shards=%d", shards), func(t *testing.T) {
			t.Parallel()
			// Those that let time pass mostly sleep, and all at once.
			var wg sync.WaitGroup
			for _, tr := range all {
				switch {
				case tr.SimOnly:
				case tr.Sleeps():
					wg.Go(func() { playTranscript(t, tr, shards) })
				default:
					playTranscript(t, tr, shards)
				}
			}
			wg.Wait()
		})
	}
}

func playTranscript(t *testing.T, tr *conversation.Transcript, shards int) {
	s, err := conversation.StartServer(daemon.Program(t), append(daemon.ShardArgs(shards), tr.Flags...)...)
	if err != nil {
		t.Error(err)
		return
	}
	defer s.Stop()
	d := &conversation.NetDriver{Network: "tcp", Address: s.Address, Signal: s.Drain}
	defer d.Shutdown()
	if err := conversation.Play(tr, d, conversation.Options{}); err != nil {
		t.Error(err)
		select {
		case <-s.Exited():
			t.Errorf("the server has ended: %v", s.Err())
		default:
		}
	}
}
