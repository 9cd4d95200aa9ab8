//go:build !linux

package ops

import "polystalk/shard/core"

// Other systems do not tell a suspend from a clock that was set.
func suspendedAtMost() core.Time  { return 0 }
func suspendedAtLeast() core.Time { return 0 }
