package sim

import (
	"fmt"
	"io"
	"strconv"
	"testing"
	"time"

	"polystalk/codec/conversation"
	"polystalk/router"
)

// TestTranscripts plays every conversation on simulated time, with one shard
// and with many, and with parts of it late.
func TestTranscripts(t *testing.T) {
	all, err := conversation.Transcripts()
	if err != nil {
		t.Fatal(err)
	}
	for _, tr := range all {
		t.Run(tr.Name, func(t *testing.T) {
			for seed, shards := range []int{1, 1, 4, 16, 16, 256} {
				d := referee(t, uint64(seed+1), shards, tr.Flags)
				err := conversation.Play(tr, d, conversation.Options{})
				if err == nil {
					err = d.end()
				}
				d.w.Close()
				if err != nil {
					t.Errorf("%d shards, seed %d: %v", shards, seed+1, err)
				}
			}
		})
	}
}

// A simReferee is a conversation.Driver for a World.
type simReferee struct {
	w     *World
	conns map[string]*Sock
	asks  *Sock // what another driver asks for stats: transcripts count it
}

// referee makes a world for a transcript's command line.
func referee(t *testing.T, seed uint64, shards int, flags []string) *simReferee {
	t.Helper()
	cfg := router.Config{Shards: shards, BinlogMaxSize: 10 << 20}
	for len(flags) > 0 {
		if len(flags) < 2 || flags[0] != "-z" {
			t.Fatalf("flags %q mean nothing to the simulator", flags)
		}
		n, err := strconv.ParseUint(flags[1], 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		cfg.MaxJobSize = uint32(n)
		flags = flags[2:]
	}
	w, err := New(seed, 2, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &simReferee{w: w, conns: map[string]*Sock{}}
}

func (d *simReferee) conn(name string) *Sock {
	k := d.conns[name]
	if k == nil {
		k = d.w.Open()
		d.conns[name] = k
	}
	return k
}

// rest lets parts be late and then all of them happen.
func (d *simReferee) rest() error {
	for range d.w.rng.IntN(30) {
		d.w.Late()
	}
	return d.w.Rest()
}

// Send implements conversation.Driver.
func (d *simReferee) Send(conn string, b []byte) error {
	d.conn(conn).Send(b)
	return d.rest()
}

// Recv implements conversation.Driver.
func (d *simReferee) Recv(conn string, _ bool) ([]byte, error) {
	k := d.conn(conn)
	if err := d.rest(); err != nil {
		return nil, err
	}
	b := k.Got
	k.Got = nil
	if len(b) == 0 && k.Ended {
		return nil, io.EOF
	}
	return b, nil
}

// HalfClose implements conversation.Driver.
func (d *simReferee) HalfClose(conn string) error {
	d.conn(conn).HalfClose()
	return d.rest()
}

// Close implements conversation.Driver. A server that reads sees a half-close.
func (d *simReferee) Close(conn string) error {
	k := d.conn(conn)
	delete(d.conns, conn)
	k.HalfClose()
	if err := d.rest(); err != nil {
		return err
	}
	if !k.Ended {
		return fmt.Errorf("connection %s was closed and lives on", conn)
	}
	return nil
}

// Advance implements conversation.Driver.
func (d *simReferee) Advance(t time.Duration) error {
	if err := d.rest(); err != nil {
		return err
	}
	return d.w.Pass(t)
}

// Await implements conversation.Driver.
func (d *simReferee) Await(string, uint64) error {
	if d.asks == nil {
		d.asks = d.w.Open()
	}
	return d.rest()
}

// Drain implements conversation.Driver.
func (d *simReferee) Drain() error {
	d.w.D.Drain()
	return nil
}

// end checks the world, lets everybody go and checks that nothing is left.
func (d *simReferee) end() error {
	if err := d.w.Check(); err != nil {
		return err
	}
	for _, k := range d.conns {
		k.HalfClose()
	}
	if d.asks != nil {
		d.asks.HalfClose()
	}
	return empty(d.w)
}
