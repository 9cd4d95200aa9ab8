package daemon

import (
	"bufio"
	"bytes"
	bits "encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"polystalk/codec/conversation"
	"polystalk/codec/gearman"
)

// A GearmanConn is a Gearman connection of a client, a worker or an administrator.
type GearmanConn struct {
	*net.TCPConn
	R *bufio.Reader // what the server sends
}

// StartGearman starts the daemon with a Gearman port.
func StartGearman(t *testing.T, args ...string) (s *conversation.Server, gear string) {
	t.Helper()
	gear = FreeAddress(t)
	args = append(append(ShardArgs(4), "--gearman-listen", gear, "--gearman-prefix", "H:lap"), args...)
	return Start(t, args...), gear
}

// DialGearman opens a connection and closes it at the end of the test.
func DialGearman(t *testing.T, address string) *GearmanConn {
	t.Helper()
	n, err := net.Dial("tcp", address)
	must(t, err)
	c := &GearmanConn{n.(*net.TCPConn), bufio.NewReader(n)}
	_ = c.SetDeadline(time.Now().Add(ClientTime))
	t.Cleanup(func() { c.Close() })
	return c
}

// Send writes one or several packets. An error is errCut.
func (c *GearmanConn) Send(b []byte) error {
	if _, err := c.Write(b); err != nil {
		return errCut
	}
	return nil
}

// Reply reads a packet. An error other than a timeout is errCut.
func (c *GearmanConn) Reply() (gearman.Type, [][]byte, error) {
	head := make([]byte, gearman.HeaderSize)
	_, err := io.ReadFull(c.R, head)
	var body []byte
	if err == nil {
		body = make([]byte, bits.BigEndian.Uint32(head[8:]))
		_, err = io.ReadFull(c.R, body)
	}
	if err != nil {
		if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
			return 0, nil, errors.New("the server does not answer")
		}
		return 0, nil, errCut
	}
	t := gearman.Type(bits.BigEndian.Uint32(head[4:]))
	if t == gearman.Error {
		return t, nil, fmt.Errorf("the server says %q", body)
	}
	return t, bytes.SplitN(body, []byte{0}, 3), nil
}

// errCut is the error of a connection that ends.
var errCut = errors.New("the connection was killed")

// Ask sends text and expects this packet next.
func (c *GearmanConn) Ask(t *testing.T, text string, kind gearman.Type, body string) {
	t.Helper()
	must(t, c.Send([]byte(text)))
	c.Hear(t, kind, body)
}

// Hear expects this packet next.
func (c *GearmanConn) Hear(t *testing.T, kind gearman.Type, body string) {
	t.Helper()
	Hears(t, c.R, Response(kind, body))
}

// Request returns a packet of a client or a worker.
func Request(t gearman.Type, args ...string) string {
	return string(gearman.AppendRequest(nil, t, inBytes(args)...))
}

// Response returns a packet of a server.
func Response(t gearman.Type, args ...string) string {
	return string(gearman.AppendReply(nil, t, inBytes(args)...))
}

func inBytes(args []string) (list [][]byte) {
	for _, a := range args {
		list = append(list, []byte(a))
	}
	return list
}

// GearmandWith starts polystalkd in place of gearmand, and returns its address for Gearman.
func GearmandWith(t *testing.T, args ...string) (s *Server, gear string) {
	t.Helper()
	s = Await(t, GearmandCommand(args...))
	return s, s.Gearman()[0]
}

// GearmandCommand returns polystalkd in place of gearmand, on one address of this machine.
func GearmandCommand(args ...string) *exec.Cmd {
	return Command(append([]string{"gearmand", "-L", "127.0.0.1", "-p", "0", "--job-handle-prefix", "H:x", "--config-file", os.DevNull}, args...)...)
}

// Gearman returns the Gearman addresses of a running server.
func (s *Server) Gearman() (list []string) {
	s.t.Helper()
	line := s.WaitLog("serving Gearman")
	if line == nil {
		s.t.Fatal("it does not serve Gearman")
	}
	for _, a := range line["listen"].([]any) {
		list = append(list, a.(string))
	}
	return list
}
