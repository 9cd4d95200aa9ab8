package routertest

import (
	"strings"
	"testing"
)

func put(call, ret int64, job uint64, pri uint32, tube int) Op {
	return Op{Kind: Put, Call: call, Return: ret, Job: job, Pri: pri, Tube: tube}
}

func take(client int, call, ret int64, job uint64, watch ...bool) Op {
	return Op{Kind: Reserve, Client: client, Call: call, Return: ret, Job: job, Watch: watch}
}

func TestHistoriesAreJudged(t *testing.T) {
	both := []bool{true, true}
	for _, tt := range []struct {
		name string
		fits bool
		ops  []Op
	}{
		{"empty", true, nil},
		{"the second was put later", false, []Op{put(0, 1, 1, 0, 0), put(2, 3, 2, 5, 1), take(1, 0, 9, 2, both...)}},
		{"the first is not watched", true, []Op{put(0, 1, 1, 0, 0), put(2, 3, 2, 5, 1), take(1, 0, 9, 2, false, true)}},
		{"they were put at once", true, []Op{put(0, 3, 1, 0, 0), put(0, 3, 2, 5, 1), take(1, 0, 9, 2, both...)}},
		{"another had the first", true, []Op{put(0, 1, 1, 0, 0), put(2, 3, 2, 5, 1), take(1, 0, 9, 2, both...), take(2, 0, 9, 1, both...)}},
		{"another may have had the first", true, []Op{put(0, 1, 1, 0, 0), put(2, 3, 2, 5, 1), take(1, 0, 9, 2, both...), take(2, 0, Pending, 1, both...)}},
		{"another had the first later", false, []Op{put(0, 1, 1, 0, 0), put(2, 3, 2, 5, 1), take(1, 4, 9, 2, both...), take(2, 10, 11, 1, both...)}},
		{"there was always one", false, []Op{
			put(0, 1, 1, 0, 0), put(2, 3, 2, 0, 1), take(2, 4, 5, 1, true, false), take(1, 2, 9, 0, both...), take(3, 10, 11, 2, both...),
		}},
		{"there was none for a moment", true, []Op{
			put(0, 1, 1, 0, 0), put(2, 6, 2, 0, 1), take(2, 4, 5, 1, true, false), take(1, 2, 9, 0, both...), take(3, 10, 11, 2, both...),
		}},
		{"it is paused", true, []Op{
			put(0, 1, 1, 0, 0), put(2, 3, 2, 5, 1), {Kind: Pause, Call: 4, Return: 5}, take(1, 6, 7, 2, both...), take(1, 8, 9, 0, both...),
			{Kind: Unpause, Call: 10, Return: 11}, take(1, 12, 13, 1, both...),
		}},
		{"it was paused", false, []Op{
			put(0, 1, 1, 0, 0), {Kind: Pause, Call: 4, Return: 5}, {Kind: Unpause, Call: 6, Return: 7}, take(1, 8, 9, 0, both...),
		}},
		{"taken twice", false, []Op{put(0, 1, 1, 0, 0), take(1, 2, 5, 1, both...), take(2, 2, 5, 1, both...)}},
		{"released between", true, []Op{
			put(0, 1, 1, 0, 0), take(1, 2, 5, 1, both...), {Kind: Release, Client: 1, Call: 6, Return: 7, Job: 1, Pri: 3, Found: true},
			take(2, 2, 9, 1, both...), {Kind: Delete, Client: 2, Call: 10, Return: 11, Job: 1, Found: true},
		}},
		{"given back", true, []Op{
			put(0, 1, 1, 0, 0), take(1, 2, 5, 1, both...), {Kind: HoldEnds, Client: 1, Call: 6, Return: 9, Job: 1},
			take(2, 2, 9, 1, both...), {Kind: Delete, Client: 1, Call: 10, Return: 11, Job: 1},
		}},
		{"delayed, buried, kicked", true, []Op{
			{Kind: Put, Call: 0, Return: 1, Job: 1, Delayed: true}, take(1, 2, 3, 0, both...), {Kind: DelayEnds, Call: 4, Return: 5, Job: 1},
			take(1, 6, 7, 1, both...), {Kind: Bury, Client: 1, Call: 8, Return: 9, Job: 1, Found: true}, take(1, 10, 11, 0, both...),
			{Kind: KickJob, Client: 2, Call: 12, Return: 13, Job: 1, Found: true}, {Kind: KickJob, Client: 2, Call: 14, Return: 15, Job: 1},
			take(1, 16, 17, 1, both...),
		}},
	} {
		err := CheckHistory(tt.ops)
		if (err == nil) != tt.fits {
			t.Errorf("%s: %v", tt.name, err)
		}
		if err != nil && !strings.Contains(err.Error(), "none of these can be next") {
			t.Errorf("%s: the failure is not explained: %v", tt.name, err)
		}
	}
}
