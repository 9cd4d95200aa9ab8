package cli

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"polystalk/cmd/polystalk/client"
)

// A leaders is a server that reports one leader after the other, and then the last one forever.
type leaders struct {
	client.Server
	names []string // empty: there is no leader
}

func (s *leaders) Ask(_ context.Context, r client.Request) (client.Answer, error) {
	if r.Method == "POST" {
		return client.Answer{}, nil
	}
	name := s.names[0]
	if len(s.names) > 1 {
		s.names = s.names[1:]
	}
	if name == "" {
		return client.Answer{Document: []byte(`{"leader":null,"members":[]}`)}, nil
	}
	return client.Answer{Document: fmt.Appendf(nil, `{"leader":%q,"members":[]}`, name)}, nil
}

func TestTransferEndsWhenTheNamedServerLeads(t *testing.T) {
	for name, tt := range map[string]struct {
		to      string
		leaders []string
		shows   string
		fault   string
	}{
		"at once":       {"b", []string{"b"}, "b", ""},
		"later":         {"b", []string{"a", "", "", "b"}, "b", ""},
		"none named":    {"", []string{"", "c"}, "c", ""},
		"nobody":        {"", []string{""}, "", "the new one is not known yet"},
		"nobody, named": {"b", []string{"a", ""}, "", "the new one is not known yet"},
		"another":       {"b", []string{"", "a"}, "", "a leads, not b"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			a := &App{}
			a.printer = client.Printer{Out: &out, Format: "json"}
			r := &run{App: a, ctx: t.Context(), server: &leaders{names: tt.leaders}}
			if tt.to != "" {
				r.args = []string{tt.to}
			}
			err := clusterTransfer(r)
			if tt.fault == "" && (err != nil || !strings.Contains(out.String(), tt.shows)) {
				t.Errorf("%s: %v, and %q is shown, want %s to lead", name, err, &out, tt.shows)
			}
			if tt.fault != "" && (client.ExitCode(err) != client.NotDone || !strings.Contains(err.Error(), tt.fault) || out.Len() > 0) {
				t.Errorf("%s: %v, and %q is shown, want %q", name, err, &out, tt.fault)
			}
		})
	}
}
