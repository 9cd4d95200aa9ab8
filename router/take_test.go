package router_test

import (
	"io"
	"net"
	"testing"

	"polystalk/router"
	"polystalk/router/admin"
)

// TestTakenClientsAreServed: a connection that another server has handed on is served in the
// protocol that it says, as its client's.
func TestTakenClientsAreServed(t *testing.T) {
	s := serve(t, router.Config{Loops: 1})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	take := func(protocol string, client net.Addr) (*remote, error) {
		t.Helper()
		c := s.dial(l.Addr())
		other, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return c, s.Take(other, protocol, client)
	}
	there := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9}
	for protocol, says := range map[string]struct{ ask, want string }{
		s.Fronts()[0].Name(): {"use a\r\n", "USING a\r\n"},
		s.Fronts()[1].Name(): {"shutdown\n", "ERR UNKNOWN_COMMAND Unknown+server+commandshutdown\r\n"}, // it is of another machine
	} {
		c, err := take(protocol, there)
		if err != nil {
			t.Fatal(err)
		}
		c.say(says.ask)
		c.hears(says.want)
	}
	list, err := s.Operator().Connections(t.Context(), &admin.ConnectionQuery{Limit: 5}, 0)
	if err != nil || len(list.Rows) != 2 {
		t.Fatalf("%+v, %v, want two connections", list, err)
	}
	for _, row := range list.Rows {
		if got := row.PeerName(); got != there.String() {
			t.Errorf("operators are told that it comes from %s, want %s", got, there)
		}
	}
	c, err := take("smtp", there)
	if err == nil {
		t.Error("a protocol that is not spoken was taken")
	}
	if _, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("read %v, want the end", err)
	}
}
