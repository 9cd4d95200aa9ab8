package admin

import (
	"strings"

	wire "polystalk/codec/admin"
)

// matchPath returns the match of a policy in the form of the API.
func matchPath(match string) string {
	if prefix, ok := strings.CutSuffix(match, "*"); ok {
		return wire.PathName(prefix) + "*"
	}
	return wire.PathName(match)
}
