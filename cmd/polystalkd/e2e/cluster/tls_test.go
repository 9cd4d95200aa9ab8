package cluster

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"polystalk/cmd/polystalkd/e2e/daemon"
	"polystalk/codec/wiretest/certtest"
)

// secure returns the flags of a server with a certificate of an authority.
func secure(ca *certtest.Authority, name string) []string {
	cert, key := ca.Issue(certtest.ForNode(name))
	return []string{"--cluster-cert", cert, "--cluster-key", key, "--cluster-ca", ca.File}
}

// Servers with certificates of one authority form a cluster. A server with a certificate of another
// authority, or with none, cannot join.
func TestClusterWithTLS(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	ours, theirs := certtest.New(t), certtest.New(t)
	one, two, stranger, plain := newNode(t, "jobs1"), newNode(t, "jobs2"), newNode(t, "jobs3"), newNode(t, "jobs4")
	flags := secure(ours, "jobs1")
	one.found(flags...)
	operators := daemon.FreeAddress(t)
	two.start(append(secure(ours, "jobs2"), "--cluster-join", one.cluster, "--http", operators)...)
	awaitVoters(t, one, 2)
	var jobs tally
	jobs.put(two, "through the follower")
	jobs.wantReady(one)
	works(t, "through the follower", "http://"+operators, "body", "1")
	works(t, "answered by jobs1, the leader", "http://"+operators, "put", "mail", "--body", "x", "-v")
	stranger.launch(append(secure(theirs, "jobs3"), "--cluster-join", one.cluster)...)
	plain.launch("--cluster-join", one.cluster)
	for _, n := range []*node{stranger, plain} {
		n.WaitLog("this server has not joined the cluster yet; trying again")
		n.Signal(syscall.SIGTERM)
		n.EndsWith(0)
	}
	if k := one.status(); k == nil || len(k.Members) != 2 {
		t.Errorf("%+v", k)
	}
	ends := func(name string) (at time.Time) {
		if m := one.member(name); m != nil && m.CertificateNotAfter != nil {
			at = *m.CertificateNotAfter
		}
		return at
	}
	was := ends("jobs1")
	if in := time.Until(ends("jobs2")); in < 23*time.Hour || in > 24*time.Hour || was.IsZero() {
		t.Errorf("the expiry of jobs1 is %v, and of jobs2 in %v", was, in)
	}
	sooner := certtest.ForNode("jobs1")
	sooner.Until = sooner.Until.Add(-12 * time.Hour)
	ours.Renew(flags[1], flags[3], sooner)
	one.Signal(syscall.SIGHUP)
	one.WaitLog("the certificate of the cluster was read again")
	if now := ends("jobs1"); !now.Equal(sooner.Until.Truncate(time.Second)) {
		t.Errorf("the expiry in the status is %v, want %v", now, sooner.Until)
	}
	bad := daemon.RunToEnd(t, daemon.Binary, daemon.CleanEnv(), append(one.args(secure(ours, "jobs9")...), "--check-config")...)
	if bad.Code != 5 || !strings.Contains(bad.Stderr, "--cluster-cert") || !strings.Contains(bad.Stderr, "jobs1") {
		t.Errorf("a certificate for another name: %d %s", bad.Code, bad.Stderr)
	}
}
