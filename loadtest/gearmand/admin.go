package gearmand

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"polystalk/codec/gearman"
	"polystalk/loadtest/drive"
	"polystalk/loadtest/workload"
)

// version asks the server.
func version(ctx context.Context, addr string) (string, error) {
	c, err := dial(ctx, addr, &workload.Load{})
	if err != nil {
		return "", err
	}
	defer c.NC.Close()
	c.NC.SetDeadline(time.Now().Add(workload.Grace))
	line, err := c.askLine("version")
	if err != nil {
		return "", err
	}
	version, ok := strings.CutPrefix(line, "OK ")
	if !ok {
		return "", fmt.Errorf("wrong reply to version: expected OK and a version, got %q", line)
	}
	return version, c.Quit()
}

// askLine sends a line of text and returns the line that answers it.
func (c *conn) askLine(command string) (string, error) {
	c.Out = append(append(c.Out, command...), "\r\n"...)
	if err := c.Flush(); err != nil {
		return "", err
	}
	return c.line(command)
}

func (c *conn) line(command string) (string, error) {
	m, err := c.read()
	if err != nil {
		return "", err
	}
	if err := c.expect(gearman.Text, gearman.Text, m); err != nil {
		return "", err
	}
	return string(m.Args[0]), nil
}

// jobs asks how many jobs there are of each function, waiting and running.
func (c *conn) jobs() (map[string]uint64, error) {
	totals := map[string]uint64{}
	for line, err := c.askLine("status"); line != "."; line, err = c.line("status") {
		if err != nil {
			return nil, err
		}
		// From the right: a function's name may hold tabs.
		f := bytes.Split([]byte(line), []byte{'\t'})
		if len(f) < 4 {
			return nil, fmt.Errorf("wrong reply to status: expected a function and three numbers, got %q", line)
		}
		n := len(f) - 3
		total, err := strconv.ParseUint(string(f[n]), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("wrong reply to status: expected numbers, got %q", line)
		}
		totals[string(bytes.Join(f[:n], []byte{'\t'}))] = total
	}
	return totals, nil
}

// awaitJobs waits until the server has want jobs of the functions together: what
// workers report has no answer that could be waited for. A server that does not
// get there has lost jobs, or made some up.
func (c *conn) awaitJobs(functions [][]byte, want uint64) error {
	for end := drive.Now() + int64(workload.Grace); ; time.Sleep(2 * time.Millisecond) {
		totals, err := c.jobs()
		if err != nil {
			return err
		}
		var n uint64
		for _, f := range functions {
			n += totals[string(f)]
		}
		if n == want {
			return nil
		}
		if n < want || drive.Now() > end {
			return fmt.Errorf("the server says that there are %d jobs of this load, expected %d", n, want)
		}
	}
}

// drop removes functions that nobody uses any more. The server may still have
// to learn that their workers have gone.
func (c *conn) drop(functions [][]byte) error {
	end := drive.Now() + int64(workload.Grace)
	for _, f := range functions {
		for {
			line, err := c.askLine("drop function " + string(f))
			if err != nil {
				return err
			}
			if line == "OK" {
				break
			}
			if line != "ERR there are still connected workers or executing clients" || drive.Now() > end {
				return fmt.Errorf("wrong reply to drop function %s: expected OK, got %q", f, line)
			}
			time.Sleep(2 * time.Millisecond)
		}
	}
	return nil
}
