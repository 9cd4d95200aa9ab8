package http

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	wire "polystalk/codec/admin"
)

const connectionsPath = "/api/v1/connections"

// told returns the connections that a query finds, read in parts.
func (w *world) told(query string) (all []wire.Connection) {
	w.t.Helper()
	for after := ""; ; {
		p := as[wire.ConnectionList](w.t, w.do("GET", connectionsPath+"?"+query+after, ask{}).wants(w.t, 200, ""))
		if all = append(all, p.Connections...); p.Next == "" {
			return all
		}
		after = "&after=" + p.Next
	}
}

// gear connects a Gearman worker, which sends some packets.
func (w *world) gear(packets ...string) net.Conn {
	w.t.Helper()
	conn := w.connect(w.srv.ServeGearman)
	for _, p := range packets {
		_, err := io.WriteString(conn, p)
		noErr(w.t, err)
	}
	return conn
}

// request is a packet of Gearman.
func request(kind uint32, data string) string {
	head := binary.BigEndian.AppendUint32([]byte("\x00REQ"), kind)
	return string(binary.BigEndian.AppendUint32(head, uint32(len(data)))) + data
}

func TestConnectionsByHTTP(t *testing.T) {
	w := newWorld(t, setup{anonymous: "read"})
	w.put("mail", 3)
	if all := w.told(""); len(all) != 0 {
		t.Errorf("%+v", all)
	}
	producer := w.beanstalkd()
	producer("use mail") // once it is answered, the connection has the first number
	worker := w.beanstalkd()
	worker("watch mail")
	worker("reserve")
	worker("reserve")
	w.gear(request(22, "indexer 3"), request(1, "a\xffb"), request(4, ""))
	var all []wire.Connection
	for range 1000 {
		if all = w.told("limit=2"); len(all) == 3 && all[2].State == "sleeping" {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	require(t, len(all) == 3, "%d connections are told of", len(all))
	p, k, g := all[0], all[1], all[2]
	expect(t, p.Command == "use" && time.Since(p.Opened) <= time.Minute && k.Holding == 2 && k.Watching == 2 && k.WaitSeconds == 0, "%+v, %+v", p, k)
	expect(t, g.Protocol == "Gearman" && g.ClientID == "indexer_3" && len(g.Watched) == 1 && g.Watched[0] == (wire.TubeName{Name: `a\xFFb`, Path: "a%FFb"}), "%+v", g)
	for query, want := range map[string][]uint64{
		"protocol=beanstalkd": {p.ID, k.ID}, "protocol=Gearman&limit=1": {g.ID}, "tube=mail": {p.ID, k.ID}, "tube=a%FFb": {g.ID}, "tube=nobody": nil,
		"holding=true": {k.ID}, "holding=false": {p.ID, k.ID, g.ID}, "holding=true&protocol=Gearman": nil, "tube=default&holding=true&limit=1": {k.ID},
		fmt.Sprintf("after=%d", p.ID): {k.ID, g.ID}, "after=18446744073709551615": nil,
	} {
		var got []uint64
		for _, c := range w.told(query) {
			got = append(got, c.ID)
		}
		expect(t, fmt.Sprint(got) == fmt.Sprint(want), "%s: %v, want %v", query, got, want)
	}

	path := fmt.Sprintf("%s/%d", connectionsPath, k.ID)
	one := get[wire.ConnectionJobs](w, path)
	require(t, one.ID == k.ID && len(one.Jobs) == 2 && *one.Jobs[0].Holder == (wire.Holder{Connection: k.ID, Peer: k.Peer}) && one.Jobs[0].StateSeconds >= one.Jobs[1].StateSeconds, "%+v", one)
	for _, at := range []string{"/api/v1/jobs", "/api/v1/tubes/mail/jobs"} {
		for _, j := range w.list(at, "") {
			expect(t, (j.Holder != nil) == (j.State == "reserved") && (j.Holder == nil || *j.Holder == *one.Jobs[0].Holder), "%+v", j)
		}
	}
	w.do("DELETE", path, ask{token: adminToken}).wants(t, 204, "")
	w.do("DELETE", path, ask{token: adminToken}).wants(t, 404, "not-found")
	w.do("GET", path, ask{}).wants(t, 404, "not-found")
	n := len(w.told(""))
	expect(t, n == 2, "%d connections are left", n)
	for _, j := range w.list("/api/v1/tubes/mail/jobs", "") {
		expect(t, j.State == "ready" && j.Holder == nil, "%+v", j)
	}
	e := w.audit("")
	expect(t, len(e) == 2 && e[1].Action == "DELETE /api/v1/connections/{id}" && e[1].Status == 204 && e[1].Affected == 1 && e[1].Path == path && e[1].Name == "boss", "%+v", e)
}
