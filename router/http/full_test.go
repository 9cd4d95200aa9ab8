package http

import (
	"strings"
	"sync/atomic"
	"testing"

	wire "polystalk/codec/admin"
	"polystalk/router/access"
	"polystalk/shard/wal"
)

// A fillingDisk is a directory in which there is room for no further segment while it is
// full.
type fillingDisk struct {
	wal.Disk
	full atomic.Bool
}

func (d *fillingDisk) Free() int64 {
	if d.full.Load() {
		return 0
	}
	return 1 << 40
}

// TestFullDisk: nothing is changed that takes space; deleting goes on, and makes room.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	disk := &fillingDisk{Disk: wal.Dir(dir)}
	w := newWorld(t, setup{anonymous: access.Operate, dir: dir, disk: disk, maxJob: 1 << 20})
	disk.full.Store(true)
	body := `{"delay_seconds":1000,"body":"` + strings.Repeat("x", 60_000) + `"}`
	put := 0
	for ; put < 1000; put++ {
		a := w.do("POST", "/api/v1/tubes/mail/jobs", ask{json: true, body: body})
		if a.status == 507 {
			a.wants(t, 507, "disk-full")
			break
		}
		a.wants(t, 201, "")
	}
	require(t, put != 0 && put != 1000, "%d jobs were put", put)
	tube := func() (v wire.Tube) {
		t.Helper()
		w.do("GET", "/api/v1/tubes/mail", ask{}).wants(t, 200, "").read(t, &v)
		return v
	}
	w.do("POST", "/api/v1/tubes/mail/jobs", ask{json: true, body: `{"body":"` + strings.Repeat("x", 900_000) + `"}`}).wants(t, 507, "disk-full")
	w.do("PUT", "/api/v1/tubes/mail/pause", ask{json: true, body: `{"seconds":9}`}).wants(t, 507, "disk-full")
	w.do("POST", "/api/v1/tubes/mail/kick", ask{json: true, body: `{"count":9}`}).wants(t, 507, "disk-full")
	w.do("POST", "/api/v1/jobs/1/kick", ask{}).wants(t, 507, "disk-full")
	v := tube()
	expect(t, v.Jobs.Delayed == uint64(put) && v.Jobs.Ready == 0 && v.Pauses == 0, "something was changed: %+v, %d were put", v, put)
	w.do("GET", "/readyz", ask{}).wants(t, 200, "").has(t, "the disk is full")
	j := get[wire.Journal](w, "/api/v1/journal")
	expect(t, j.Pressure == "full", "%+v", j)
	w.do("DELETE", "/api/v1/jobs/1", ask{}).wants(t, 204, "")
	gone := as[wire.Flushed](t, w.do("DELETE", "/api/v1/tubes/mail/jobs?state=delayed", ask{}).wants(t, 200, ""))
	expect(t, gone.Jobs == uint64(put-1), "%+v, %d were put", gone, put)
	w.do("GET", "/api/v1/tubes/mail", ask{}).wants(t, 404, "not-found") // it was gone with its last job
}
