package router

import (
	"polystalk/codec/beanstalk"
	"polystalk/codec/gearman"
	"polystalk/router/ops"
)

// tubeNaming is what the two protocols think of a tube's name, which is also that of a
// function.
var tubeNaming = ops.Naming{Fold: gearman.FoldFunction, Shown: shownName}

// shownName implements ops.Naming: a name that only a Gearman client can say is
// foreign, and list-tubes shows it in quotes.
func shownName(name string) (n int, foreign bool) {
	if beanstalk.ValidTubeName([]byte(name)) {
		return len(name), false
	}
	return len(gearman.AppendQuoted(nil, []byte(name))), true
}
