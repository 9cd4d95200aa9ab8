package record

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// somePolicies returns a valid set.
func somePolicies(rng *rand.Rand, n int) []Policy {
	set := make([]Policy, n)
	for i := range set {
		p := &set[i]
		p.Match, p.Note = fmt.Sprintf("tube-%d%s", i, []string{"", "*"}[rng.IntN(2)]), strings.Repeat("n", rng.IntN(3)*rng.IntN(NoteMax/2))
		for _, value := range p.options() {
			if rng.IntN(3) == 0 {
				*value = rng.Uint64() >> rng.IntN(64)
			}
		}
	}
	return set
}

func TestPoliciesAreReadAsTheyWereWritten(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		set := somePolicies(rng, rng.IntN(20))
		r := parse(t, AppendPolicies(nil, set))
		if r.Kind != KindPolicies || r.Slot != 0 || !r.Kind.HasSlot() || !slices.Equal(r.Policies, set) {
			t.Fatalf("seed %d: %+v, want %+v", seed, r, set)
		}
	}
	var most Policy
	for i, value := range most.options() {
		*value = uint64(i + 1)
	}
	if reflect.ValueOf(most).NumField() != 2+len(most.options()) {
		t.Error("a field has no number in the format")
	}
	most.Match, most.Note = strings.Repeat("m", MatchMax-1)+"*", strings.Repeat("n", NoteMax)
	if r := parse(t, AppendPolicies(nil, []Policy{most})); !slices.Equal(r.Policies, []Policy{most}) {
		t.Errorf("%+v, want %+v", r.Policies, most)
	}
}

// raw returns a record of policies with this content.
func raw(content string) []byte {
	b := append(AppendPolicies(nil, nil), content...)
	le.PutUint32(b, uint32(len(b)))
	return b
}

// A record that is not well-formed is refused. So is one with an option of a later release: the
// server would otherwise ignore what an operator has set.
func TestWrongPoliciesAreRefused(t *testing.T) {
	const early = "a record of policies ends early, or is not well-formed"
	for _, tt := range []struct{ name, content, says string }{
		{"no policy", "", ""},
		{"no option", "\x01a\x00\x00", ""},
		{"an option", "\x01a\x00\x01\x01\x03", ""},
		{"no match", "\x00\x00\x00", early},
		{"the match ends early", "\x05mail", early},
		{"the match is all", "\x04mail", early},
		{"the note ends early", "\x01a\x02n", early},
		{"no number of options", "\x01a\x00", early},
		{"an option is missing", "\x01a\x00\x02\x01\x03", early},
		{"an option has no value", "\x01a\x00\x01\x01", early},
		{"a value ends early", "\x01a\x00\x01\x01\x80", early},
		{"a value is above 64 bits", "\x01a\x00\x01\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", early},
		{"a value is zero", "\x01a\x00\x01\x01\x00", early},
		{"an option twice", "\x01a\x00\x02\x01\x03\x01\x03", early},
		{"a match that is too long", "\xc9" + strings.Repeat("m", MatchMax) + "*\x00\x00", early},
		{"the option 0", "\x01a\x00\x01\x00\x03", `the policy for "a" has the unknown option 0`},
		{"an option of a later release", "\x05mail*\x00\x01\x0e\x03", `the policy for "mail*" has the unknown option 14: it is from a newer version`},
		{"a match twice", "\x01a\x00\x00\x01b\x00\x00\x01a\x00\x00", `a record of policies has two for "a"`},
	} {
		var r Record
		_, err := Parse(&r, raw(tt.content))
		if tt.says == "" && err != nil || tt.says != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.says)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.says)
		}
	}
	// Any beginning of a record is refused, unless it ends behind a policy.
	whole := AppendPolicies(nil, []Policy{{Match: "a", Attempts: 3, MaxBytes: 1 << 40}})
	for n := headSize + 1; n < len(whole); n++ {
		var r Record
		if _, err := Parse(&r, raw(string(whole[headSize:n]))); err == nil {
			t.Errorf("%d of %d bytes are read as %+v", n, len(whole), r.Policies)
		}
	}
}
