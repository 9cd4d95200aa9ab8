package router

import "testing"

func TestLimitSaysWhereItComesFrom(t *testing.T) {
	for _, tt := range []struct {
		want, descriptors int
		limit             connectionLimit
	}{
		{0, 1024, connectionLimit{n: 896, from: "the limit of 1024 descriptors"}},
		{896, 1024, connectionLimit{896, "--max-connections", true}},
		{5, 1024, connectionLimit{5, "--max-connections", true}},
		{897, 1024, connectionLimit{n: 896, from: "the limit of 1024 descriptors"}},
	} {
		if got := limitOf(tt.want, tt.descriptors); got != tt.limit {
			t.Errorf("%d wanted of %d: %+v", tt.want, tt.descriptors, got)
		}
	}
}
