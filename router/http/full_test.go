package http

import (
	"fmt"
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

// TestFullDisk: nothing is changed that takes space, neither one job nor many; deleting goes on, and
// makes room.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	disk := &fillingDisk{Disk: wal.Dir(dir)}
	w := newWorld(t, setup{anonymous: access.Operate, dir: dir, disk: disk, maxJob: 1 << 20})
	w.fill(2000)
	const jobs = "/api/v1/tubes/mail/jobs"
	huge := `"body":"` + strings.Repeat("y", 900_000) + `"`
	large := w.putOne(ask{json: true, body: `{"delay_seconds":1000,` + huge + `}`}, "")
	disk.full.Store(true)
	put := 0
	for body := `{"delay_seconds":1000,"body":"` + strings.Repeat("x", 60_000) + `"}`; put < 1000; put++ {
		a := w.do("POST", jobs, ask{json: true, body: body})
		if a.status == 507 {
			a.wants(t, 507, "disk-full")
			break
		}
		a.wants(t, 201, "")
	}
	require(t, put > 0 && put < 1000, "%d jobs were put", put)
	late := fmt.Sprintf("/api/v1/jobs/%d", 2001+put)
	state := func() string {
		tube, j := get[wire.Tube](w, "/api/v1/tubes/mail"), get[wire.Job](w, late)
		return fmt.Sprint(tube.Jobs, tube.Pauses, j.Pri, j.State, j.Size)
	}
	before := state()
	for _, r := range [][3]string{
		{"POST", jobs, `{` + huge + `}`},
		{"PUT", "/api/v1/tubes/mail/pause", `{"seconds":9}`}, {"POST", "/api/v1/tubes/mail/kick", `{"count":9}`},
		{"POST", late + "/kick", ""}, {"POST", late + "/bury", ""}, {"PATCH", late, `{"pri":7}`}, {"PATCH", late, `{` + huge + `}`},
		{"POST", late + "/move", `{"to":"away"}`}, {"POST", late + "/copy", `{"to":"away"}`},
		{"POST", large + "/move", `{"to":"away"}`}, {"POST", large + "/copy", `{"to":"away"}`},
		{"POST", operations, buryMail},
		{"POST", operations, `{"action":"move","select":{"tube":"mail"},"to":"away"}`},
		{"POST", operations, `{"action":"copy","select":{"tube":"mail"},"to":"away"}`},
		{"POST", operations, `{"action":"set","select":{"tube":"mail"},"set":{"pri":1}}`},
		{"POST", operations, `{"action":"set","select":{"tube":"mail"},"set":{"ttr_seconds":1}}`},
		{"POST", operations, `{"action":"set","select":{"tube":"mail"},"set":{"delay_seconds":100}}`},
	} {
		w.do(r[0], r[1], ask{json: r[2] != "", body: r[2]}).wants(t, 507, "disk-full")
		expect(t, state() == before, "%s %s: %s, and it was %s", r[0], r[1], state(), before)
	}
	w.do("GET", "/api/v1/tubes/away", ask{}).wants(t, 404, "not-found")
	w.do("GET", "/readyz", ask{}).wants(t, 200, "").has(t, "the disk is full")
	j := get[wire.Journal](w, "/api/v1/journal")
	expect(t, j.Pressure == "full", "%+v", j)
	w.do("DELETE", late, ask{}).wants(t, 204, "")
	v := w.operation(200, `{"action":"delete","select":{"tube":"mail","states":["ready"]}}`)
	expect(t, v.Done == 2000, "deleted were %+v", v)
	gone := as[wire.Flushed](t, w.do("DELETE", jobs+"?state=delayed", ask{}).wants(t, 200, ""))
	expect(t, gone.Jobs == uint64(put), "%+v, %d were put", gone, put)
	w.do("GET", "/api/v1/tubes/mail", ask{}).wants(t, 404, "not-found") // it was gone with its last job
}
