package tomlfile

import "strings"

// Nearest returns the name that a misspelled word probably means: the one with the smallest
// distance, up to a third of the word's length; empty: none.
func Nearest(word string, names []string) (near string) {
	plain := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "_", "-")) }
	word = plain(word)
	if len(word) > nearestMost {
		return ""
	}
	least := 1 + max(1, len(word)/3)
	for _, name := range names {
		if d := distance(word, plain(name)); d < least {
			least, near = d, name
		}
	}
	return near
}

// nearestMost is the length of the longest word that Nearest compares, in bytes.
const nearestMost = 64

// distance returns how many letters must be inserted, deleted, replaced or swapped with the next
// one to turn a into b. Source: optimal string alignment.
func distance(a, b string) int {
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	last, before, next := rows[0], rows[1], rows[2] // rows i-1, i-2 and i
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			change := 1
			if a[i] == b[j] {
				change = 0
			}
			next[j+1] = min(last[j+1]+1, next[j]+1, last[j]+change)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		last, before, next = next, last, before
	}
	return last[len(b)]
}
