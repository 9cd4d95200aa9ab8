//go:build !linux

package ops

import "polystalk/shard/core"

// On other systems, suspends are not distinguished from changes of the clock.
func suspendedAtMost() core.Time  { return 0 }
func suspendedAtLeast() core.Time { return 0 }
