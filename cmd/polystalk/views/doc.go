// Package views says how documents of servers are shown: which members, in which order, and
// as what. All of them stand here, so that a member has the same name wherever it is shown.
package views

import "polystalk/cmd/polystalk/output"

// Column is a member, by its path, below a head.
func Column(head, path string, as output.Kind) output.Column {
	return output.Column{Head: head, Path: path, As: as}
}
