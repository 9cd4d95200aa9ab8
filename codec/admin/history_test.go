package admin

import (
	"encoding/json"
	"math"
	"testing"
)

func TestPointsInJSON(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		points Points
		want   string
	}{
		{nil, "[]"},
		{Points{nan}, "[null]"},
		{Points{0, 1, 2.5, nan, 0.1, 16777216, 1e-7, -3}, "[0,1,2.5,null,0.1,16777216,0.0000001,-3]"},
		{Points{3e20, float32(math.Inf(1))}, "[3e+20,null]"},
	} {
		got, err := json.Marshal(c.points)
		if err != nil || string(got) != c.want {
			t.Errorf("%s, %v, want %s", got, err, c.want)
		}
		var back Points
		if err := json.Unmarshal(got, &back); err != nil || len(back) != len(c.points) {
			t.Fatalf("%s: %v, %v", got, back, err)
		}
		for i, v := range back {
			if w := c.points[i]; v != w && (v == v || w == w && !math.IsInf(float64(w), 0)) {
				t.Errorf("%s: %v has come back", got, back)
			}
		}
	}
	for _, bad := range []string{`{}`, `["1"]`, `[1`, `[true]`} {
		if err := json.Unmarshal([]byte(bad), new(Points)); err == nil {
			t.Errorf("%s is read", bad)
		}
	}
}
