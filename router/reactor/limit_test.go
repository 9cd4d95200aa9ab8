package reactor

import "testing"

func TestLimitSaysWhereItComesFrom(t *testing.T) {
	for _, tt := range []struct {
		want, descriptors int
		limit             connectionLimit
	}{
		{0, 1024, connectionLimit{n: 984, from: "the limit of 1024 descriptors"}},
		{984, 1024, connectionLimit{984, "--max-connections", true}},
		{5, 1024, connectionLimit{5, "--max-connections", true}},
		{985, 1024, connectionLimit{n: 984, from: "the limit of 1024 descriptors"}},
	} {
		o := Options{Loops: 2, MaxConnections: tt.want}
		if got := o.limitOf(tt.descriptors); got != tt.limit {
			t.Errorf("%d wanted of %d: %+v", tt.want, tt.descriptors, got)
		}
	}
}
