package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"polystalk/cmd/polystalk/api"
	"polystalk/cmd/polystalk/fault"
	"polystalk/cmd/polystalk/output"
	"polystalk/codec/admin"
)

// A told program is told of leaders, one after the other; of the last for ever.
type told struct {
	leaders []string // empty: nobody leads
	shown   string   // the document that was shown
}

func (p *told) Choose(string) {}

func (p *told) Timeout() time.Duration { return time.Minute }

func (p *told) Ask(_ context.Context, _ string, r api.Request) (api.Answer, error) {
	if r.Method == "POST" {
		return api.Answer{}, nil
	}
	leader := p.leaders[0]
	if len(p.leaders) > 1 {
		p.leaders = p.leaders[1:]
	}
	if leader == "" {
		return api.Answer{Document: []byte(`{"leader":null}`)}, nil
	}
	return api.Answer{Document: fmt.Appendf(nil, `{"leader":%q}`, leader)}, nil
}

func (p *told) Show(document []byte, _ output.View) error {
	p.shown = string(document)
	return nil
}

// TestTransferIsDone once the server leads that was named, or any if none was.
func TestTransferIsDone(t *testing.T) {
	for name, tt := range map[string]struct {
		to      string
		leaders []string
		shows   string
		fault   string
	}{
		"at once":       {"b", []string{"b"}, "b", ""},
		"later":         {"b", []string{"a", "", "", "b"}, "b", ""},
		"none named":    {"", []string{"", "c"}, "c", ""},
		"nobody":        {"", []string{""}, "", "none that does is known yet"},
		"nobody, named": {"b", []string{"a", ""}, "", "none that does is known yet"},
		"another":       {"b", []string{"", "a"}, "", "a leads, and not b"},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := &told{leaders: tt.leaders}
			err := transfer(t.Context(), p, admin.ClusterTransfer{Node: tt.to})
			if tt.fault == "" && (err != nil || !strings.Contains(p.shown, tt.shows)) {
				t.Errorf("%s: %v, and %q is shown, want %s to lead", name, err, p.shown, tt.shows)
			}
			if tt.fault != "" && (fault.Code(err) != fault.NotDone || !strings.Contains(err.Error(), tt.fault) || p.shown != "") {
				t.Errorf("%s: %v, and %q is shown, want %q", name, err, p.shown, tt.fault)
			}
		})
	}
}
