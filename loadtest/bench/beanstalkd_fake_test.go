package bench

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A beansFake is a small, slow and honest server in this process: enough of the
// protocol for every workload. lie, if set, may change a reply on its way out.
type beansFake struct {
	mu   sync.Mutex
	cond *sync.Cond
	jobs map[uint64]*beansFakeJob
	id   uint64
	puts int // answered
	lie  func(cmd, reply string) string
	quit bool
	wg   sync.WaitGroup
	nets map[net.Conn]bool
}

type beansFakeJob struct {
	id       uint64
	pri      int
	tube     string
	body     string
	reserved *beansFakeConn
	delayed  bool
}

type beansFakeConn struct {
	use   string
	watch []string
}

func startBeansFake(t *testing.T, lie func(cmd, reply string) string) (*beansFake, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &beansFake{jobs: map[uint64]*beansFakeJob{}, lie: lie, nets: map[net.Conn]bool{}}
	f.cond = sync.NewCond(&f.mu)
	f.wg.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.nets[nc] = true
			f.mu.Unlock()
			f.wg.Go(func() { f.serve(nc) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		f.mu.Lock()
		f.quit = true
		for nc := range f.nets {
			nc.Close()
		}
		f.cond.Broadcast()
		f.mu.Unlock()
		f.wg.Wait()
	})
	return f, l.Addr().String()
}

func (f *beansFake) serve(nc net.Conn) {
	defer nc.Close()
	in := bufio.NewReader(nc)
	out := bufio.NewWriter(nc)
	c := &beansFakeConn{use: "default", watch: []string{"default"}}
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimSuffix(line, "\r\n")
		reply, err := f.command(c, line, in)
		if err != nil {
			return
		}
		if f.lie != nil {
			reply = f.lie(line, reply)
		}
		out.WriteString(reply)
		// Like a real server: one write for what was read at once.
		if in.Buffered() == 0 || strings.HasPrefix(line, "reserve") {
			if out.Flush() != nil {
				return
			}
		}
	}
}

func (f *beansFake) command(c *beansFakeConn, line string, in io.Reader) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	word, arg, _ := strings.Cut(line, " ")
	var id uint64
	fmt.Sscan(arg, &id)
	switch word {
	case "put":
		var pri, delay, ttr, size int
		if _, err := fmt.Sscan(arg, &pri, &delay, &ttr, &size); err != nil {
			return "BAD_FORMAT\r\n", nil
		}
		body := make([]byte, size+2)
		if _, err := io.ReadFull(in, body); err != nil {
			return "", err
		}
		f.id++
		f.puts++
		f.jobs[f.id] = &beansFakeJob{id: f.id, pri: pri, tube: c.use, body: string(body[:size]), delayed: delay > 0}
		f.cond.Broadcast()
		return fmt.Sprintf("INSERTED %d\r\n", f.id), nil
	case "use":
		c.use = arg
		return "USING " + arg + "\r\n", nil
	case "watch":
		if !slices.Contains(c.watch, arg) {
			c.watch = append(c.watch, arg)
		}
		return fmt.Sprintf("WATCHING %d\r\n", len(c.watch)), nil
	case "ignore":
		if i := slices.Index(c.watch, arg); i >= 0 {
			if len(c.watch) == 1 {
				return "NOT_IGNORED\r\n", nil
			}
			c.watch = slices.Delete(c.watch, i, i+1)
		}
		return fmt.Sprintf("WATCHING %d\r\n", len(c.watch)), nil
	case "list-tubes-watched":
		return yaml("---\n- " + strings.Join(c.watch, "\n- ") + "\n"), nil
	case "reserve", "reserve-with-timeout":
		for !f.quit {
			if j := f.next(c); j != nil {
				j.reserved = c
				return fmt.Sprintf("RESERVED %d %d\r\n%s\r\n", j.id, len(j.body), j.body), nil
			}
			if word != "reserve" {
				return "TIMED_OUT\r\n", nil
			}
			f.cond.Wait()
		}
		return "", errors.New("over")
	case "delete":
		j := f.jobs[id]
		if j == nil || (j.reserved != nil && j.reserved != c) {
			return "NOT_FOUND\r\n", nil
		}
		delete(f.jobs, id)
		return "DELETED\r\n", nil
	case "kick":
		n := 0
		for _, j := range f.jobs {
			if j.tube == c.use && j.delayed {
				j.delayed = false
				n++
			}
		}
		return fmt.Sprintf("KICKED %d\r\n", n), nil
	case "stats-job":
		j := f.jobs[id]
		if j == nil || j.reserved == nil {
			return "NOT_FOUND\r\n", nil
		}
		return yaml(fmt.Sprintf("---\nid: %d\ntube: %s\nstate: reserved\npri: %d\n", id, j.tube, j.pri)), nil
	case "stats":
		return yaml("---\nversion: \"0.1-fake\"\nid: x\n"), nil
	case "quit":
		return "", errors.New("quit")
	}
	return "UNKNOWN_COMMAND\r\n", nil
}

// next returns the most urgent job that c may reserve.
func (f *beansFake) next(c *beansFakeConn) *beansFakeJob {
	var best *beansFakeJob
	for _, j := range f.jobs {
		if j.reserved == nil && !j.delayed && slices.Contains(c.watch, j.tube) &&
			(best == nil || cmp.Or(cmp.Compare(j.pri, best.pri), cmp.Compare(j.id, best.id)) < 0) {
			best = j
		}
	}
	return best
}

func yaml(body string) string { return fmt.Sprintf("OK %d\r\n%s\r\n", len(body), body) }

func (f *beansFake) left() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.jobs)
}
