package bootstrap

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"polystalk/router/cluster"
	"polystalk/router/cluster/snapshot"
	"polystalk/shard/wal/fakedisk"
)

// A booting server runs on a disk that may stop.
type booting struct {
	disk  *fakedisk.Disk
	addr  string
	told  atomic.Pointer[Answer]
	state atomic.Pointer[cluster.State]
	stops int
}

// serve answers one request of a server with an ID.
func (b *booting) serve(c net.Conn, asking uint64) {
	defer c.Close()
	if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
		return
	}
	told := b.told.Load()
	if s := b.state.Load(); s != nil {
		told = &Answer{Cluster: s.Identity().Cluster, Votes: s.Members().Find(asking) != nil, Founders: s.Founders().List}
	}
	if told == nil {
		fmt.Fprint(c, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
		return
	}
	body, _ := json.Marshal(told)
	fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// run starts the server, after each stop again, until it belongs to a cluster.
func (b *booting) run(t *testing.T, all []*booting, list []string) {
	for {
		id, err := snapshot.NodeID(b.disk)
		if err == nil {
			var s *cluster.State
			s, err = Run(t.Context(), Options{
				Disk: b.disk, Self: cluster.Member{ID: id, Name: strings.ToLower(b.addr[:1]), Addr: b.addr}, List: list,
				Publish: b.told.Store, Waits: func(string) {}, Log: slog.New(slog.DiscardHandler),
				Dial: func(_ context.Context, addr string) (net.Conn, error) {
					for _, o := range all {
						if o.addr == addr {
							near, far := net.Pipe()
							go o.serve(far, id)
							return near, nil
						}
					}
					return nil, fmt.Errorf("nothing listens at %s", addr)
				},
			})
			if err == nil {
				b.state.Store(s)
				return
			}
		}
		if t.Context().Err() != nil {
			return
		}
		b.stops++
		b.told.Store(nil)
		b.disk.Cut()
		b.disk.CrashAt = 0
		if s, err := cluster.OpenState(b.disk); err == nil {
			b.state.Store(s)
			return
		}
	}
}

// TestServersThatStopBootstrap: after a power cut at any operation of a disk, three servers end in one
// cluster, in which all vote.
func TestServersThatStopBootstrap(t *testing.T) {
	stops := 0
	for at := range 72 {
		synctest.Test(t, func(t *testing.T) {
			var all []*booting
			var list []string
			for i, addr := range []string{"C:1", "A:1", "B:1"} {
				all = append(all, &booting{disk: fakedisk.New(uint64(at)), addr: addr})
				if i == at%3 {
					all[i].disk.CrashAt = 1 + at/3
				}
				list = append(list, addr)
			}
			for _, b := range all {
				go b.run(t, all, list)
			}
			for all[0].state.Load() == nil || all[1].state.Load() == nil || all[2].state.Load() == nil {
				if err := pause(t.Context(), pauseMin); err != nil {
					t.Fatal(err)
				}
			}
			for _, b := range all {
				s := b.state.Load()
				one := s.Members().Find(s.Identity().Node)
				if s.Identity().Cluster != all[0].state.Load().Identity().Cluster || one == nil || one.Addr != b.addr || s.Members().Voters() != 3 || s.Vote() != (cluster.Vote{}) {
					t.Errorf("stop %d: %s is %+v of %+v", at, b.addr, s.Identity(), s.Members())
				}
				stops += b.stops
			}
		})
	}
	if stops < 24 {
		t.Errorf("only %d servers stopped", stops)
	}
}
