package console

import (
	"net"
	"strings"
	"testing"
	"time"
)

// TestServerOfACluster: the page shows the servers and the leader. The page of a follower shows
// the leader's jobs, and says that it follows.
func TestServerOfACluster(t *testing.T) {
	long(t)
	free := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		noErr(t, err)
		defer l.Close()
		return l.Addr().String()
	}
	at := free()
	one := serve(t, "--http-tokens-file", tokens(t), "--cluster-listen", at, "--cluster-node", "jobs1", "--cluster-new")
	one.WaitLog("this server leads: clients are served here")
	two := serve(t, "--cluster-listen", free(), "--cluster-node", "jobs2", "--cluster-standby", "--cluster-join", at)
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if v := two.api("GET", "cluster", ""); strings.Contains(v, `"leader":"jobs1"`) {
			break
		}
		require(t, !time.Now().After(end), "the second server knows of no leader")
	}
	b := open(t, one.base, "", look{})
	b.login(adminToken)
	b.visit("server")
	b.reads("jobs1 (leads)")
	b.reads("standby")
	b.press("Promote to voter")
	b.reads("jobs2 is a voter")
	b.reads("Make leader …")
	b.press("Remove …")
	b.reads("Remove jobs2?")
	b.press("Cancel")
	b.quiet("401") // before the login

	id := one.put("mail", "hello", "")
	b = open(t, two.base, "", look{})
	b.reads("mail")
	b.visit("job/" + id)
	b.reads("hello")
	b.visit("server")
	b.reads("This server is a follower: jobs1 leads")
	b.reads("jobs2, follower")
}
