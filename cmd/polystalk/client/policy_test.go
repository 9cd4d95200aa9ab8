package client

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"polystalk/codec/admin"
)

// TestOptionsAreReadAndShown: each text of an option sets its member, and is shown again in its
// shortest form.
func TestOptionsAreReadAndShown(t *testing.T) {
	for text, want := range map[string]struct{ document, shown string }{
		"attempts=5":                {`{"attempts":5}`, ""},
		"backoff=2s..1h":            {`{"backoff_seconds":2,"backoff_max_seconds":3600}`, ""},
		"backoff=90":                {`{"backoff_seconds":90}`, "backoff=90s"},
		"ttl=1.5h":                  {`{"ttl_seconds":5400}`, "ttl=90m"},
		"ttl=14d":                   {`{"ttl_seconds":1209600}`, ""},
		"max-bytes=500MB":           {`{"max_bytes":500000000}`, ""},
		"max-bytes=67108864":        {`{"max_bytes":67108864}`, ""},
		"max-bytes=1500kB":          {`{"max_bytes":1500000}`, ""},
		"max-jobs=9007199254740992": {`{"max_jobs":9007199254740992}`, ""},
		"running=0":                 {`{"running":0}`, ""},
		"per-second=0.5":            {`{"per_second":0.5}`, ""},
		"per-second=50.0":           {`{"per_second":50}`, "per-second=50"},
		"note=5":                    {`{"note":"5"}`, `note="5"`},
		"note=delete":               {`{"note":"delete"}`, `note="delete"`},
		"expired=bury":              {`{"expired":"bury"}`, ""},
		"expired=delete":            {`{"expired":"delete"}`, "-"},
		"full=refuse":               {`{"full":"refuse"}`, "-"},
	} {
		policy := make(map[string]any)
		name, value, _ := strings.Cut(text, "=")
		must(t, SetOption(policy, name, value))
		b, err := json.Marshal(policy)
		must(t, err)
		var got, wanted any
		must(t, json.Unmarshal(b, &got))
		must(t, json.Unmarshal([]byte(want.document), &wanted))
		if !reflect.DeepEqual(got, wanted) {
			t.Errorf("%s: %s, want %s", text, b, want.document)
		}
		if want.shown == "" {
			want.shown = text
		}
		row, err := Decode(b)
		must(t, err)
		for _, p := range []any{policy, row, got} { // as set, as a row of a table, and as read
			if shown := OptionsOf(p.(map[string]any)); shown != strings.TrimPrefix(want.shown, "-") {
				t.Errorf("%s: %q is shown, want %q", text, shown, want.shown)
			}
		}
	}
}

func TestOptionsThatCannotBeReadNameTheRemedy(t *testing.T) {
	for text, want := range map[string]string{
		"atempts=5": "such as attempts;", "max_jobs=5": "such as max-jobs;", "nonsense=1": "policy set --help", "=1": "policy set --help",
		"ttl=1w": "such as 5d", "backoff=..": "such as 5d", "backoff=2s..soon": "such as 5d", "max-bytes=": "such as 5GB", "attempts=many": "such as 5", "per-second=": "such as 5", "per-second=nan": "such as 5", "ttl=-infd": "such as 5",
	} {
		name, value, _ := strings.Cut(text, "=")
		if err := SetOption(make(map[string]any), name, value); ExitCode(err) != Usage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestPolicyOptionsAreAllMembers of a policy, except its match.
func TestPolicyOptionsAreAllMembers(t *testing.T) {
	row := reflect.TypeFor[admin.Policy]()
	for _, o := range policyOptions {
		if member(row, o.member) == nil {
			t.Errorf("a policy has no member %s", o.member)
		}
	}
	if n := row.NumField() - 1; n != len(policyOptions) {
		t.Errorf("%d options, and a policy has %d", len(policyOptions), n)
	}
}
