// Package index knows where in a journal's segments the entries of a log are, and of which term
// each is, in a few bytes for many entries. It knows no files, so all of it can be tested with
// numbers alone.
//
// A log is written behind what there is, and never cut off: an entry takes the place of every
// earlier one that has its index or a higher one. So an Index is told of entries in the order
// of the files, and forgets what each of them replaces.
//
//	files   1 2 3 4 | 5 6 7 | 6 7 8 | 9 …
//	points  1         5       6       9          and each so many entries or bytes
//	runs    1……………………………………   6 ……………          where the term is another
package index
