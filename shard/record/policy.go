package record

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A Policy tells tubes what to do with their jobs by themselves. A zero field is an option that is
// not set. Package core states what each option does.
type Policy struct {
	Match string // the name of a tube, or a prefix of names and "*"; at most 200 bytes
	Note  string // for operators; at most NoteMax bytes

	Attempts           uint64
	Backoff            uint64 // seconds
	BackoffMax         uint64 // seconds
	TTL                uint64 // seconds
	Expired            uint64 // PolicyDelete or PolicyBury
	MaxJobs            uint64
	MaxBytes           uint64
	Full               uint64 // PolicyRefuse or PolicyDropOldest
	RunningPlus        uint64 // 1 more than the limit of reserved jobs, which may be 0
	ThousandthsASecond uint64 // reserves in a thousand seconds
	Burst              uint64
	BuriedTTL          uint64 // seconds
	MaxBuried          uint64
}

// What an option with two values does.
const (
	PolicyDelete, PolicyBury       = 0, 1 // Policy.Expired
	PolicyRefuse, PolicyDropOldest = 0, 1 // Policy.Full
)

// Limits of a set of policies.
const (
	PoliciesMax     = 1000     // policies
	PoliciesSizeMax = 32 << 10 // bytes of the record
	MatchMax        = 200      // bytes
	NoteMax         = 128      // bytes
)

// options returns the options of p. Option n of the format is at index n-1. A later release
// appends to it.
func (p *Policy) options() [13]*uint64 {
	return [...]*uint64{
		&p.Attempts, &p.Backoff, &p.BackoffMax, &p.TTL, &p.Expired, &p.MaxJobs, &p.MaxBytes, &p.Full,
		&p.RunningPlus, &p.ThousandthsASecond, &p.Burst, &p.BuriedTTL, &p.MaxBuried,
	}
}

// AppendPolicies appends a Policies record, the whole set of a server. It has slot 0. Each policy is
//
//	n u8 | match | n u8 | note | n u8 | n × (option u8 | value uvarint)
func AppendPolicies(b []byte, set []Policy) []byte {
	start := len(b)
	b = head(b, 0, KindPolicies, 0, 0)
	for i := range set {
		p := &set[i]
		b = append(append(b, byte(len(p.Match))), p.Match...)
		b = append(append(b, byte(len(p.Note))), p.Note...)
		count := len(b)
		b = append(b, 0)
		for n, value := range p.options() {
			if *value != 0 {
				b = binary.AppendUvarint(append(b, byte(n+1)), *value)
				b[count]++
			}
		}
	}
	le.PutUint32(b[start:], uint32(len(b)-start))
	return b
}

var errPolicies = errors.New("a record of policies ends early, or is not well-formed")

// parsePolicies decodes the content of a Policies record.
func parsePolicies(b []byte) ([]Policy, error) {
	text := func() (s string, ok bool) {
		if len(b) == 0 || len(b) <= int(b[0]) {
			return "", false
		}
		s, b = string(b[1:1+b[0]]), b[1+b[0]:]
		return s, true
	}
	var set []Policy
	known := map[string]bool{}
	for len(b) > 0 {
		var p Policy
		var ok, ok2 bool
		p.Match, ok = text()
		p.Note, ok2 = text()
		if !ok || !ok2 || p.Match == "" || len(p.Match) > MatchMax || len(b) == 0 {
			return nil, errPolicies
		}
		if known[p.Match] {
			return nil, fmt.Errorf("a record of policies has two for %q", p.Match)
		}
		known[p.Match] = true
		count := b[0]
		b = b[1:]
		for ; count > 0; count-- {
			if len(b) == 0 {
				return nil, errPolicies
			}
			number := int(b[0])
			options := p.options()
			if number == 0 || number > len(options) {
				return nil, fmt.Errorf("the policy for %q has the unknown option %d: it is from a newer version", p.Match, number)
			}
			value, n := binary.Uvarint(b[1:])
			if n <= 0 || value == 0 || *options[number-1] != 0 {
				return nil, errPolicies
			}
			*options[number-1], b = value, b[1+n:]
		}
		set = append(set, p)
	}
	return set, nil
}
