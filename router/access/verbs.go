package access

import (
	"errors"
	"strings"
)

// Verbs are the kinds of actions on a tube that an identity has.
type Verbs uint8

// The verbs.
const (
	Put    Verbs = 1 << iota // add jobs
	Work                     // reserve jobs; a worker also has Look
	Look                     // see the tube, its statistics and its jobs
	Manage                   // delete, kick, bury, release and move jobs, pause and flush the tube

	Every = Put | Work | Look | Manage
)

// verbNames are the names in the access file, in the order of the bits.
var verbNames = [...]string{"put", "work", "look", "manage"}

// String returns the names of the verbs, separated by commas.
func (v Verbs) String() string { return strings.Join(v.Names(), ",") }

// Names returns the names of the verbs; an empty list if there are none.
func (v Verbs) Names() []string {
	names := []string{}
	for i, name := range verbNames {
		if v&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// A pattern matches names of tubes: * stands for any bytes, ? for one byte, and \ quotes the next
// byte. Names of tubes are never read as patterns.
type pattern struct {
	text    string  // as in the file, with the !
	exclude bool    // the pattern begins with !
	tokens  []int16 // bytes, anyBytes and anyByte
}

const (
	anyBytes int16 = -1 // *
	anyByte  int16 = -2 // ?
)

// patternMax is the longest pattern in bytes. A tube's name has at most 200 in beanstalkd.
const patternMax = 400

// parsePattern reads a pattern of the file.
func parsePattern(text string) (p pattern, err error) {
	p.text = text
	rest, excludes := strings.CutPrefix(text, "!")
	p.exclude = excludes
	switch {
	case rest == "":
		return p, errors.New(`the pattern is empty: write "*" for every tube`)
	case len(text) > patternMax:
		return p, errors.New("the pattern has more than 400 bytes: a tube's name has at most 200")
	}
	p.tokens = make([]int16, 0, len(rest))
	for i := 0; i < len(rest); i++ {
		switch c := rest[i]; c {
		case '*':
			if n := len(p.tokens); n == 0 || p.tokens[n-1] != anyBytes {
				p.tokens = append(p.tokens, anyBytes)
			}
		case '?':
			p.tokens = append(p.tokens, anyByte)
		case '\\':
			if i++; i == len(rest) {
				return p, errors.New(`a \ at the end quotes nothing: write \\ for the byte itself`)
			}
			p.tokens = append(p.tokens, int16(rest[i]))
		default:
			p.tokens = append(p.tokens, int16(c))
		}
	}
	return p, nil
}

// matches reports whether the pattern matches a name. Its time is at most proportional to the
// product of both lengths: a mismatch resumes behind the last * only.
func (p *pattern) matches(name []byte) bool {
	t := p.tokens
	star, from := -1, 0 // position of the last * and of the byte where it tries next
	i, j := 0, 0
	for j < len(name) {
		switch {
		case i < len(t) && t[i] == anyBytes:
			star, from = i, j
			i++
		case i < len(t) && (t[i] == anyByte || t[i] == int16(name[j])):
			i++
			j++
		case star >= 0:
			from++
			i, j = star+1, from
		default:
			return false
		}
	}
	for i < len(t) && t[i] == anyBytes {
		i++
	}
	return i == len(t)
}

// A rule gives verbs on the tubes that match a pattern, or takes them away.
type rule struct {
	pattern
	verbs Verbs
	line  int // of the access file; 0: of a role
}

// allowed applies rules to a name. An exclusion always wins. Work implies Look, since a client
// that reserves a job sees it.
func allowed(rules []rule, name []byte) Verbs {
	var with, without Verbs
	for i := range rules {
		r := &rules[i]
		if r.exclude && without&r.verbs != r.verbs || !r.exclude && with&r.verbs != r.verbs {
			if r.matches(name) {
				if r.exclude {
					without |= r.verbs
				} else {
					with |= r.verbs
				}
			}
		}
	}
	return (with &^ without).complete() &^ without
}

// complete adds the verbs that others imply.
func (v Verbs) complete() Verbs {
	if v&Work != 0 {
		v |= Look
	}
	return v
}
