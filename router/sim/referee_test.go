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

// TestConversations plays every conversation on simulated time, with one shard and with many, and
// with delays. Conversations about processes need a real server.
func TestConversations(t *testing.T) {
	shardCounts := []int{1, 1, 4, 16, 16, 256}
	if testing.Short() {
		shardCounts = []int{16}
	}
	for _, p := range []*conversation.Protocol{conversation.Beanstalk, conversation.Gearman} {
		all, err := conversation.All(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range all {
			if c.NeedsProcess() {
				continue
			}
			t.Run(c.Name, func(t *testing.T) {
				for seed, shards := range shardCounts {
					d := referee(t, uint64(seed+1), shards, c)
					err := c.Play(d, conversation.Options{Version: versions[p], Host: "-"})
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
}

// versions has the meaning of {version} in conversations.
var versions = map[*conversation.Protocol]string{conversation.Gearman: "2.0.0"}

// A simReferee is a conversation.Driver for a World.
type simReferee struct {
	w       *world
	gearman bool
	conns   map[string]*sock
	asks    *sock // replaces the connection that other drivers use for stats
}

// referee makes a world with the conversation's flags.
func referee(t *testing.T, seed uint64, shards int, c *conversation.Conversation) *simReferee {
	t.Helper()
	cfg := router.Config{Shards: shards, BinlogMaxSize: 10 << 20, Gearman: router.GearmanConfig{Prefix: conversation.HandlePrefix}}
	for i := 0; i < len(c.Flags); i += 2 {
		n, err := strconv.ParseUint(c.Flags[i+1], 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		switch c.Flags[i] {
		case "-z":
			cfg.MaxJobSize = uint32(n)
		case "--job-retries":
			cfg.Gearman.Retries = uint32(n)
		case "--worker-wakeup":
			cfg.Gearman.Wakeup = int(n)
		default:
			t.Fatalf("flags %q mean nothing to the simulator", c.Flags)
		}
	}
	if c.Access != "" {
		cfg.Access = newAccessFile(t, c.Access).ids
	}
	w, err := New(seed, 2, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &simReferee{w: w, gearman: c.Protocol == conversation.Gearman, conns: map[string]*sock{}}
}

func (d *simReferee) conn(name string) *sock {
	k := d.conns[name]
	if k == nil {
		open := d.w.Open
		if d.gearman {
			open = d.w.openGearman
		}
		k = open()
		d.conns[name] = k
	}
	return k
}

// rest lets some events happen late, and then all of them.
func (d *simReferee) rest() error {
	for range d.w.rng.IntN(30) {
		d.w.late()
	}
	return d.w.rest()
}

// Send implements conversation.Driver.
func (d *simReferee) Send(conn string, b []byte) error {
	d.conn(conn).Send(b)
	return d.rest()
}

// Recv implements conversation.Driver. Gearman conversations wait for timed events.
func (d *simReferee) Recv(conn string, wait bool) ([]byte, error) {
	k := d.conn(conn)
	if err := d.rest(); err != nil {
		return nil, err
	}
	for range 100 {
		if !d.gearman || !wait || len(k.Got) > 0 || k.Ended {
			break
		}
		if err := d.w.pass(100 * time.Millisecond); err != nil {
			return nil, err
		}
	}
	b := k.Got
	k.Got = nil
	if len(b) == 0 && k.Ended {
		return nil, io.EOF
	}
	return b, nil
}

// Act implements conversation.Driver. For a server that reads, a close looks like a half-close.
func (d *simReferee) Act(conn, action string) error {
	k := d.conn(conn)
	switch action {
	case "open":
		return d.rest()
	case "halfclose":
		k.halfClose()
		return d.rest()
	case "rst":
		k.Abort()
	default:
		k.halfClose()
	}
	delete(d.conns, conn)
	if err := d.rest(); err != nil {
		return err
	}
	if !k.Ended && action == "close" {
		return fmt.Errorf("connection %s was closed and lives on", conn)
	}
	return nil
}

// Advance implements conversation.Driver.
func (d *simReferee) Advance(t time.Duration) error {
	if err := d.rest(); err != nil {
		return err
	}
	return d.w.pass(t)
}

// Now implements conversation.Driver.
func (d *simReferee) Now() time.Time { return d.w.noted() }

// Uptime implements conversation.Driver.
func (d *simReferee) Uptime() time.Duration { return time.Duration(d.w.Now() - epoch) }

// Await implements conversation.Driver.
func (d *simReferee) Await(string, string) error {
	if d.asks == nil {
		d.asks = d.w.Open()
	}
	return d.rest()
}

// Server implements conversation.Driver.
func (d *simReferee) Server(verb string) error {
	if verb == "drain" {
		d.w.D.Server.Drain()
	}
	return nil
}

// end checks the world, closes all clients and checks that nothing is left.
func (d *simReferee) end() error {
	if err := d.w.Check(); err != nil {
		return err
	}
	for _, k := range d.conns {
		k.halfClose()
	}
	if d.asks != nil {
		d.asks.halfClose()
	}
	return empty(d.w)
}
