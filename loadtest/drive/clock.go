package drive

import "time"

// epoch is where this process's nanosecond clock starts.
var epoch = time.Now()

// Now is the time in nanoseconds since this process started, of the monotonic
// clock. Only differences within a process mean something.
func Now() int64 { return int64(time.Since(epoch)) }
