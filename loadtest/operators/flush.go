package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"polystalk/codec/admin"
)

// fillFlushed has a tube be there that is as large as the backlog.
func (a *actor) fillFlushed() error {
	c := client(a.socket)
	resp, err := c.Post("http://localhost/api/v1/operations", "application/json", strings.NewReader(`{"action":"copy","select":{"tube":"backlog"},"to":"flushed"}`))
	if err != nil {
		return err
	}
	var op admin.Operation
	err = json.NewDecoder(resp.Body).Decode(&op)
	resp.Body.Close()
	if err != nil || resp.StatusCode/100 != 2 {
		return fmt.Errorf("copy of the backlog: %s: %v", resp.Status, err)
	}
	for op.State != "done" {
		time.Sleep(50 * time.Millisecond)
		code, body, err := get(c, fmt.Sprintf("/api/v1/operations/%d", op.ID))
		if err != nil || code != http.StatusOK {
			return fmt.Errorf("operation %d: %d %.200s: %v", op.ID, code, body, err)
		}
		op = admin.Operation{}
		if err := json.Unmarshal(body, &op); err != nil {
			return err
		}
		if op.Problem != nil {
			return fmt.Errorf("copy of the backlog: %+v", op.Problem)
		}
	}
	return nil
}

// flush empties the tube once, and has the server reclaim the memory meanwhile.
func (a *actor) flush() error {
	start := time.Now()
	req, err := http.NewRequest("DELETE", "http://localhost/api/v1/tubes/flushed/jobs?state=ready", nil)
	if err != nil {
		return err
	}
	resp, err := client(a.socket).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	a.did("flush", start)
	var f admin.Flushed
	if err := json.NewDecoder(resp.Body).Decode(&f); err != nil || resp.StatusCode != http.StatusOK || f.Jobs != uint64(*jobs) {
		return fmt.Errorf("flush: %s, %d of %d jobs: %v", resp.Status, f.Jobs, *jobs, err)
	}
	time.Sleep(time.Until(a.until))
	return nil
}
