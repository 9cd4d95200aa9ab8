package bench

import (
	"bytes"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"

	"polystalk/codec/gearman"
)

// A gearFake is a small, slow and honest server of Gearman's protocol.
type gearFake struct {
	mu        sync.Mutex
	id        uint64
	jobs      []*gearFakeJob
	functions map[string]bool
	conns     map[*gearFakeConn]bool
	sent      [gearman.NumTypes]int // by type
	lie       gearLie
	wg        sync.WaitGroup
}

// A gearLie may change the n-th reply of type t, from 1, on its way out.
type gearLie func(t gearman.Type, n int, reply []byte) []byte

type gearFakeJob struct {
	handle           gearman.Handle
	function, unique string
	data             []byte
	client, worker   *gearFakeConn
}

type gearFakeConn struct {
	f        *gearFake
	nc       net.Conn
	can      []string
	sleeping bool
}

func startGearFake(t *testing.T, lie gearLie) (*gearFake, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &gearFake{lie: lie, functions: map[string]bool{}, conns: map[*gearFakeConn]bool{}}
	f.wg.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			c := &gearFakeConn{f: f, nc: nc}
			f.mu.Lock()
			f.conns[c] = true
			f.mu.Unlock()
			f.wg.Go(c.serve)
		}
	})
	t.Cleanup(func() {
		l.Close()
		f.closeAll()
		f.wg.Wait()
	})
	return f, l.Addr().String()
}

func (f *gearFake) closeAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		c.nc.Close()
	}
}

func (c *gearFakeConn) serve() {
	defer func() {
		c.f.mu.Lock()
		delete(c.f.conns, c)
		c.f.mu.Unlock()
		c.nc.Close()
	}()
	var in []byte
	chunk := make([]byte, 4096)
	for {
		n, err := c.nc.Read(chunk)
		if err != nil {
			return
		}
		in = append(in, chunk[:n]...)
		for {
			var m gearman.Message
			n, fault := gearman.Parse(&m, in, gearman.DefaultMaxBody)
			if fault != nil {
				return
			}
			if n == 0 || len(in) < n+m.Size {
				break
			}
			c.request(&m, in[n:n+m.Size])
			in = in[n+m.Size:]
		}
	}
}

// reply sends under the lock: what one connection causes on another must not
// overtake anything.
func (c *gearFakeConn) reply(t gearman.Type, packet []byte) {
	f := c.f
	f.sent[t]++
	if f.lie != nil {
		packet = f.lie(t, f.sent[t], packet)
	}
	c.nc.Write(packet)
}

func (c *gearFakeConn) request(m *gearman.Message, data []byte) {
	f := c.f
	f.mu.Lock()
	defer f.mu.Unlock()
	switch m.Type {
	case gearman.CanDo:
		c.can = append(c.can, string(m.Args[0]))
		f.functions[string(m.Args[0])] = true
	case gearman.PreSleep:
		c.sleeping = f.next(c) == nil
		if !c.sleeping {
			c.reply(gearman.Noop, gearman.AppendNoop(nil))
		}
	case gearman.GrabJobUniq:
		c.sleeping = false
		j := f.next(c)
		if j == nil {
			c.reply(gearman.NoJob, gearman.AppendNoJob(nil))
			return
		}
		j.worker = c
		b := gearman.AppendAssignHead(nil, m.Type, &gearman.Assignment{Handle: j.handle, Function: j.function, Unique: []byte(j.unique), Size: len(j.data)})
		c.reply(gearman.JobAssignUniq, append(b, j.data...))
	case gearman.SubmitJob, gearman.SubmitJobBG:
		f.id++
		j := &gearFakeJob{handle: gearman.Handle{Prefix: "H:fake", ID: f.id}, function: string(m.Args[0]), unique: string(m.Args[1]), data: bytes.Clone(data)}
		if m.Type == gearman.SubmitJob {
			j.client = c
		}
		f.functions[j.function] = true
		f.jobs = append(f.jobs, j)
		for w := range f.conns {
			if w.sleeping && slices.Contains(w.can, j.function) {
				w.sleeping = false
				w.reply(gearman.Noop, gearman.AppendNoop(nil))
			}
		}
		c.reply(gearman.JobCreated, gearman.AppendJobCreated(nil, j.handle))
	case gearman.WorkComplete:
		i := slices.IndexFunc(f.jobs, func(j *gearFakeJob) bool { return j.worker == c && j.handle.String() == string(m.Args[0]) })
		if i < 0 {
			c.reply(gearman.Error, gearman.AppendError(nil, gearman.ErrorNoJobResult))
			return
		}
		j := f.jobs[i]
		f.jobs = slices.Delete(f.jobs, i, i+1)
		if j.client != nil {
			j.client.reply(m.Type, append(gearman.AppendWorkHead(nil, m.Type, j.handle, len(data)), data...))
		}
	case gearman.EchoReq:
		c.reply(gearman.EchoRes, append(gearman.AppendEchoHead(nil, len(data)), data...))
	case gearman.Text:
		c.reply(gearman.Text, f.line(m))
	default:
		c.reply(gearman.Error, gearman.AppendError(nil, gearman.ErrorInvalidCommand))
	}
}

func (f *gearFake) line(m *gearman.Message) (b []byte) {
	switch m.Verb {
	case gearman.Version:
		return gearman.AppendOK(nil, "0.1-fake")
	case gearman.Status:
		for name := range f.functions {
			var s gearman.FunctionStatus
			for _, j := range f.jobs {
				switch {
				case j.function != name:
				case j.worker != nil:
					s.Running++
				default:
					s.Waiting[gearman.Normal]++
				}
			}
			b = gearman.AppendStatusLine(b, name, &s)
		}
		return append(b, gearman.MsgEnd...)
	case gearman.DropFunction:
		name := string(m.Args[0])
		for c := range f.conns {
			if slices.Contains(c.can, name) {
				return []byte(gearman.MsgFunctionBusy)
			}
		}
		if !f.functions[name] {
			return []byte(gearman.MsgFunctionNotFound)
		}
		delete(f.functions, name)
		return []byte(gearman.MsgOK)
	}
	return fmt.Appendf(nil, "ERR UNKNOWN_COMMAND Unknown+server+command%s\r\n", m.Word)
}

// next returns the oldest job that c may take.
func (f *gearFake) next(c *gearFakeConn) *gearFakeJob {
	for _, j := range f.jobs {
		if j.worker == nil && slices.Contains(c.can, j.function) {
			return j
		}
	}
	return nil
}

// left is what a load must not leave behind.
func (f *gearFake) left() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.jobs)+len(f.functions) == 0 {
		return ""
	}
	return fmt.Sprintf("%d jobs and the functions %v", len(f.jobs), f.functions)
}
