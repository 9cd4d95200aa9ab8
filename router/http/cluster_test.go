package http

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/shard/stats"
	"polystalk/shard/wal"
)

// A fakeCluster has three members, and a state that the test sets.
type fakeCluster struct {
	mu      sync.Mutex
	status  wire.Cluster
	asked   int // calls of Status
	did     []string
	refuses error
	ended   atomic.Bool // its certificate has expired
	tooOld  error       // of CheckPolicies
}

func newFakeCluster() *fakeCluster {
	leader, match, lag, ahead, late, room := "n1", uint64(90), uint64(10), -0.25, 1.5, int64(4096)
	return &fakeCluster{status: wire.Cluster{
		ID: "0123456789abcdef", Node: "n1", Role: "leader", Leader: &leader, Term: 7, Lease: true,
		LastIndex: 100, LastTerm: 3, CommittedIndex: 99, AppliedIndex: 98,
		Outstanding: wire.ClusterOutstanding{Entries: 1, Bytes: 2},
		Totals:      wire.ClusterTotals{LeaderChanges: 3, LeaseLapses: 2, Fetches: 1, Forwarded: 4},
		Members: []wire.ClusterMember{
			{Name: "n1", ID: "0000000000000001", Address: "10.0.0.1:1", Kind: wire.MemberVotes, Leads: true, Connected: true, RoomBytes: &room, CertificateNotAfter: new(time.Unix(2e9, 0).UTC())},
			{Name: "n2", ID: "0000000000000002", Address: "10.0.0.2:1", Kind: wire.MemberVotes, Connected: true, MatchIndex: &match, LagEntries: &lag, LagSeconds: &late, HeardSeconds: &late, ClockAheadSeconds: &ahead, RoomBytes: &room, DiskFull: true, AccessDigest: new("none"), AccessDiffers: true, SentBytes: 5, ReceivedBytes: 6, Dropped: 7},
			{Name: "n3", ID: "0000000000000003", Address: "10.0.0.3:1", Kind: wire.MemberStandby, Trouble: "connection refused"},
		},
		AsOf: time.Now().UTC(),
	}}
}

func (k *fakeCluster) Status() *wire.Cluster {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked++
	s := k.status
	return &s
}

// Leader returns the leader of Status.
func (k *fakeCluster) Leader() (name string, here bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.status.Leader != nil {
		name = *k.status.Leader
	}
	return name, k.status.Role == "leader"
}

// Disbelieved returns a text once the certificate has expired.
func (k *fakeCluster) Disbelieved() string {
	if k.ended.Load() {
		return "its certificate has ended: have it signed again"
	}
	return ""
}

func (k *fakeCluster) CheckPolicies(context.Context) error { return k.tooOld }

// FullDisks returns the servers of Status with full disks.
func (k *fakeCluster) FullDisks() (here bool, others []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.status.Members {
		switch m := &k.status.Members[i]; {
		case !m.DiskFull:
		case m.Name == k.status.Node:
			here = true
		default:
			others = append(others, m.Name)
		}
	}
	return here, others
}

// set changes the role and the leader.
func (k *fakeCluster) set(role string, leader *string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.status.Role, k.status.Leader = role, leader
}

// Commits returns one commit of a second.
func (k *fakeCluster) Commits() stats.Counts {
	var h stats.Histogram
	h.Took(time.Second)
	return h.Read()
}

func (k *fakeCluster) do(what string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.did = append(k.did, what)
	return k.refuses
}

func (k *fakeCluster) Remove(_ context.Context, node string) error   { return k.do("remove " + node) }
func (k *fakeCluster) Promote(_ context.Context, node string) error  { return k.do("promote " + node) }
func (k *fakeCluster) Transfer(_ context.Context, node string) error { return k.do("transfer " + node) }

// TestClusterByHTTP: the status of the cluster, and its changes with their audit. A server without a
// cluster leads.
func TestClusterByHTTP(t *testing.T) {
	alone := newWorld(t, setup{anonymous: "operate"})
	alone.do("GET", "/leader", ask{}).wants(t, 200, "")
	alone.do("GET", "/api/v1/cluster", ask{}).wants(t, 404, "not-found").has(t, "--cluster-listen")
	expect(t, !strings.Contains(alone.do("GET", "/metrics", ask{}).body, "polystalk_cluster"), "there are metrics of a cluster")
	k := newFakeCluster()
	w := newWorld(t, setup{anonymous: "operate", cluster: k})
	got := get[wire.Cluster](w, "/api/v1/cluster")
	expect(t, got.ID == k.status.ID && *got.Leader == "n1" && len(got.Members) == 3 && *got.Members[1].LagEntries == 10 && got.Members[2].Trouble != "", "%+v", got)
	asked := k.asked
	w.do("GET", "/leader", ask{}).wants(t, 200, "")
	w.do("GET", "/readyz", ask{}).wants(t, 200, "").has(t, "other servers with a full disk: n2\n")
	k.ended.Store(true)
	if a := w.do("GET", "/readyz", ask{}).wants(t, 200, ""); strings.Count(a.body, "its certificate has ended: have it signed again\n") != 1 {
		t.Errorf("who leads with a certificate that has ended: %q", a.body)
	}
	k.ended.Store(false)
	expect(t, k.asked == asked, "a probe of a server that leads asks for its status, which may have to wait")
	w.do("GET", "/metrics", ask{}).has(t, `polystalk_cluster_access_differs{node="n2"} 1`)
	w.do("GET", "/metrics", ask{}).has(t, `polystalk_cluster_disk_full{node="n2"} 1`, `polystalk_cluster_disk_full{node="n1"} 0`)

	w.do("GET", "/metrics", ask{}).has(t, "\npolystalk_cluster_commit_seconds_sum 1\n", `polystalk_cluster_commit_seconds_bucket{le="0.25"} 0`)
	w.do("GET", "/metrics", ask{}).has(t, "\npolystalk_cluster_certificate_not_after_seconds 2e+09\n")

	w.do("DELETE", "/api/v1/cluster/members/n3", ask{}).wants(t, 403, "not-permitted")
	admin := ask{token: adminToken}
	w.do("DELETE", "/api/v1/cluster/members/n3", admin).wants(t, 200, "").read(t, &got)
	w.do("POST", "/api/v1/cluster/members/n3/promote", admin).wants(t, 200, "")
	w.do("POST", "/api/v1/cluster/transfer", ask{token: adminToken, json: true, body: `{"node":"n2"}`}).wants(t, 204, "")
	w.do("POST", "/api/v1/cluster/transfer", ask{token: adminToken, json: true, body: `{}`}).wants(t, 204, "")
	did := fmt.Sprint(k.did)
	expect(t, did == "[remove n3 promote n3 transfer n2 transfer ]", "it did %s", did)
	k.refuses = errors.New(`node "n3" votes already`)
	p := w.do("POST", "/api/v1/cluster/members/n3/promote", admin).wants(t, 409, "not-changed").problem(t)
	expect(t, p.Detail == `node "n3" votes already`, "%+v", p)
	k.refuses = wire.Following.Problem("server n2 leads")
	w.do("POST", "/api/v1/cluster/members/n3/promote", admin).wants(t, 503, "following")
	list := as[wire.Audit](t, w.do("GET", "/api/v1/audit", admin).wants(t, 200, ""))
	expect(t, len(list.Entries) >= 5 && list.Entries[3].Detail == "n2" && list.Entries[0].Affected == 0 && list.Entries[5].Affected == 1, "the audit has %+v", list.Entries)
	a := w.do("GET", "/metrics", ask{})
	expect(t, strings.Contains(a.body, `polystalk_operator_operations_total{action="cluster-promote",result="not-changed"} 1`), "the change that was refused is not counted")
}

// TestFollowerByHTTP: a follower is ready while it knows a leader, and names the leader to clients
// that ask for jobs.
func TestFollowerByHTTP(t *testing.T) {
	k := newFakeCluster()
	k.set("follower", nil)
	w := newWorld(t, setup{anonymous: "operate", cluster: k, dir: t.TempDir(), unstarted: true})
	_, err := w.srv.Follow()
	noErr(t, err)
	defer w.srv.Shutdown(context.Background())
	w.do("GET", "/readyz", ask{}).wants(t, 503, "").has(t, "no server of the cluster leads")
	if a := w.do("GET", "/leader", ask{}).wants(t, 503, ""); a.body != "no server of the cluster leads\n" {
		t.Errorf("%q", a.body)
	}
	w.do("GET", "/api/v1/tubes", ask{}).wants(t, 503, "following")
	leader := "n2"
	k.set("follower", &leader)
	asked := k.asked
	w.do("GET", "/readyz", ask{}).wants(t, 200, "")
	w.do("GET", "/livez", ask{}).wants(t, 200, "")
	if a := w.do("GET", "/leader", ask{}).wants(t, 503, ""); a.body != "server n2 leads\n" {
		t.Errorf("%q", a.body)
	}
	k.ended.Store(true)
	if a := w.do("GET", "/readyz", ask{}).wants(t, 503, ""); strings.Count(a.body, "its certificate has ended: have it signed again\n") != 1 {
		t.Errorf("who follows with a certificate that has ended: %q", a.body)
	}
	k.ended.Store(false)
	w.do("GET", "/readyz", ask{}).wants(t, 200, "")
	expect(t, k.asked == asked, "a probe of a server that follows asks for its status, which may have to wait")
	w.do("GET", "/api/v1/tubes", ask{}).wants(t, 503, "following").has(t, "n2")
	a := w.do("GET", "/metrics", ask{}).wants(t, 200, "")
	expect(t, strings.Contains(a.body, `polystalk_cluster_role{role="follower"} 1`) && !strings.Contains(a.body, "polystalk_jobs{"), "%s", a.body)
}

// TestFollowerTellsOfItsDisk: a follower reports the state of its own journal everywhere. With a
// full disk it is ready, since forwarded clients are not affected, but it reports the disk.
func TestFollowerTellsOfItsDisk(t *testing.T) {
	k := newFakeCluster()
	leader := "n1"
	k.set("follower", &leader)
	dir := t.TempDir()
	disk := &fillingDisk{Disk: wal.Dir(dir), fills: true}
	w := newWorld(t, setup{anonymous: "operate", cluster: k, dir: dir, disk: disk, unstarted: true})
	_, err := w.srv.Follow()
	noErr(t, err)
	defer w.srv.Shutdown(context.Background())
	const full = `polystalk_journal_pressure{state="full"} 1`
	body := ""
	for end := time.Now().Add(time.Minute); !strings.Contains(body, full); time.Sleep(10 * time.Millisecond) {
		require(t, !time.Now().After(end), "/metrics never had %s:\n%s", full, body)
		body = w.do("GET", "/metrics", ask{}).wants(t, 200, "").body
	}
	for _, name := range []string{`journal_bytes{kind="files"} `, "journal_room_bytes ", "journal_segments 1\n", "journal_sync_seconds_count ", "start_time_seconds "} {
		expect(t, strings.Contains(body, "\npolystalk_"+name), "/metrics has no %s", name)
	}
	j := get[wire.Journal](w, "/api/v1/journal")
	got := get[wire.Cluster](w, "/api/v1/cluster")
	expect(t, j.Pressure == "full" && j.RoomBytes > 0 && j.RoomBytes < j.Bytes && got.Journal != nil && *got.Journal == j, "it has %+v, and %+v of the cluster's", j, got.Journal)
	w.do("GET", "/readyz", ask{}).wants(t, 200, "").has(t, "the disk is full: this server stores no changes of the cluster")
}
