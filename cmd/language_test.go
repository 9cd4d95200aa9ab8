package cmd

import (
	"regexp"
	"strings"
	"testing"
)

// Comments name the actor with a noun: the caller, the loop, the leader. They neither call
// code "who" nor point back with "that of": a reader who knows Go and queues understands
// them at first reading.
var (
	people   = regexp.MustCompile(`\b([Ww]hom|[Ww]hoever|(for|to|by|of|from) who)\b`)
	pronouns = regexp.MustCompile(`\b[Ww]hose\b|\b(that|those) of\b|\bof which\b|\bso many\b`)
)

// pronounsAllowed is the share of a folder's comment lines that may use such a pronoun
// where it reads best: one in 200, and one line in a small folder.
const pronounsAllowed = 0.005

// languageFaults lists the comment lines with people's words, and the folders with too
// many pronouns.
func languageFaults(all []*source) []string {
	type count struct{ lines, pronouns int }
	counts := make(map[string]*count)
	var faults []string
	for _, s := range all {
		c := counts[s.dir()]
		if c == nil {
			c = new(count)
			counts[s.dir()] = c
		}
		for _, group := range s.file.Comments {
			for _, comment := range group.List {
				for line := range strings.Lines(comment.Text) {
					c.lines++
					if people.MatchString(line) {
						faults = append(faults, s.name+": name the actor with a noun: "+strings.TrimSpace(line))
					}
					if pronouns.MatchString(line) {
						c.pronouns++
					}
				}
			}
		}
	}
	for folder, c := range counts {
		if c.pronouns > max(1, int(pronounsAllowed*float64(c.lines))) {
			faults = append(faults, folder+": repeat the noun instead of whose, that of, those of, of which, so many")
		}
	}
	return faults
}

func TestCommentsArePlainEnglish(t *testing.T) {
	for _, f := range languageFaults(readTree(t)) {
		t.Error(f)
	}
}

func TestLanguageFaultsAreFound(t *testing.T) {
	for text, want := range map[string]int{
		"// The caller must hold the loop.":                  0,
		"// It is for who has the loop.":                     1,
		"// Whoever asks waits.":                             1,
		"// The number is that of the shard.":                0, // one line in a small folder
		"// a: that of b.\n// c: those of d.":                1,
		"/* It tells the loop whose it is,\nof which one */": 1,
	} {
		s := mustParse(t, "a/a.go", text+"\npackage a")
		if got := languageFaults([]*source{s}); len(got) != want {
			t.Errorf("%s: found %q, want %d", text, got, want)
		}
	}
}
