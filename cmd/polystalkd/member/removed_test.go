package member

import (
	"testing"

	"polystalk/router/cluster"
)

// TestOnlyLaterKnowledgeRemoves: whoever does not know yet that a server was added knows it as no
// member either.
func TestOnlyLaterKnowledgeRemoves(t *testing.T) {
	known := &cluster.Members{Index: 7}
	for _, tt := range []struct {
		told membership
		want bool
	}{
		{membership{Member: false, Index: 6}, false},
		{membership{Member: false, Index: 7}, false},
		{membership{Member: false, Index: 8}, true},
		{membership{Member: true, Index: 8}, false},
	} {
		if got := tt.told.removes(known); got != tt.want {
			t.Errorf("%+v: %v, want %v", tt.told, got, tt.want)
		}
	}
}
