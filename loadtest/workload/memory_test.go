package workload

import "testing"

func TestMemoryFigures(t *testing.T) {
	m := &Memory{Jobs: 100, RSSEmpty: 1000, RSSFull: 21000, RSSDrained: 6000}
	if m.BytesPerJob() != 200 || m.Kept() != 0.25 {
		t.Errorf("%v bytes, %v kept", m.BytesPerJob(), m.Kept())
	}
	var none *Memory
	if none.BytesPerJob() != 0 || none.Kept() != 0 {
		t.Error("no memory report has figures")
	}
	if (&Memory{Jobs: 1, RSSEmpty: 9, RSSFull: 10, RSSDrained: 1}).Kept() != 0 {
		t.Error("less than nothing is kept")
	}
}
