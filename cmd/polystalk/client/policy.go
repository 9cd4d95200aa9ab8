package client

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"polystalk/codec/admin"
	"polystalk/codec/tomlfile"
)

// A unit is a suffix of numbers.
type unit struct {
	suffix string
	size   float64
}

var (
	numbers = []unit{{"", 1}}
	times   = []unit{{"d", 86400}, {"h", 3600}, {"m", 60}, {"s", 1}, {"", 1}}
	sizes   = []unit{{"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"", 1}}
)

// policyOptions are the options of policies: names for operators, members of documents, and units.
var policyOptions = []struct {
	name, member string
	units        []unit // nil: a text
}{
	{"attempts", "attempts", numbers}, {"backoff", "backoff_seconds", times}, {"backoff-max", "backoff_max_seconds", times},
	{"ttl", "ttl_seconds", times}, {"expired", "expired", nil}, {"max-jobs", "max_jobs", numbers}, {"max-bytes", "max_bytes", sizes},
	{"full", "full", nil}, {"running", "running", numbers}, {"per-second", "per_second", numbers}, {"burst", "burst", numbers},
	{"buried-ttl", "buried_ttl_seconds", times}, {"max-buried", "max_buried", numbers}, {"note", "note", nil},
}

// SetOption sets an option of a policy. The server checks bounds.
func SetOption(policy map[string]any, name, text string) error {
	if first, most, ok := strings.Cut(text, ".."); ok && name == "backoff" {
		if err := SetOption(policy, "backoff-max", most); err != nil {
			return err
		}
		text = first
	}
	var names []string
	for _, o := range policyOptions {
		names = append(names, o.name)
		if o.name != name {
			continue
		}
		if policy[o.member] != nil {
			return Errorf(Usage, "%s is there twice: give it once", strings.TrimSuffix(name, "-max"))
		}
		policy[o.member] = text
		if o.units == nil {
			return nil
		}
		for _, u := range o.units {
			number, ok := strings.CutSuffix(text, u.suffix)
			if n, err := strconv.ParseFloat(number, 64); ok && err == nil && math.Abs(n) <= math.MaxFloat64 { // JSON has no others
				policy[o.member] = n * u.size
				return nil
			}
		}
		return Errorf(Usage, "%s is %q: give a number such as 5%s", name, text, o.units[0].suffix)
	}
	return Errorf(Usage, "a policy has no option %q: give one such as %s; polystalk policy set --help lists them", name, cmp.Or(tomlfile.Nearest(name, names), "attempts"))
}

// OptionsOf returns the options of a policy as SetOption takes them, except the defaults.
func OptionsOf(policy map[string]any) string {
	var words []string
	for _, o := range policyOptions {
		v, is := policy[o.member]
		if !is || o.name == "expired" && v == "delete" || o.name == "full" && v == "refuse" {
			continue
		}
		text := fmt.Sprint(v)
		if o.name == "note" {
			text = strconv.Quote(text)
		}
		for _, u := range o.units {
			if n, err := strconv.ParseFloat(fmt.Sprint(v), 64); err == nil && (math.Mod(n, u.size) == 0 || u.size == 1) {
				text = strconv.FormatFloat(n/u.size, 'f', -1, 64) + u.suffix
				break
			}
		}
		words = append(words, o.name+"="+text)
	}
	return strings.Replace(strings.Join(words, " "), " backoff-max=", "..", 1)
}

// inWords replaces the members of documents in a problem of a policy by the options of operators.
func inWords(p *admin.Problem) {
	words := []string{"the member", "the option"}
	for _, o := range policyOptions {
		words = append(words, o.member, strings.Replace(o.name, "backoff-max", "the longest backoff", 1))
	}
	r := strings.NewReplacer(words...)
	field := strings.TrimPrefix(p.Field, "policies.")
	about := r.Replace(field)
	if strings.HasSuffix(field, "_seconds") {
		about += " in seconds"
	}
	p.Detail, p.Remedy = about+": "+r.Replace(p.Detail), r.Replace(p.Remedy)
}
