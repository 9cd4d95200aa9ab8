// Package clock is the server's time. Its moments begin with the time of day at the start
// and never step: whoever sets the system's clock changes no delay, no time to run
// and no pause. A suspend of the machine is time that passes, for delays and pauses, as
// it passes while a server is down; but not for times to run and for waits, since no
// worker could be heard meanwhile. A shard.Batch carries what that takes; what the figures
// mean is said where the core uses them (shard/core/moment.go).
//
// A suspend is noticed by the next turn of a loop, since the time of day has gone on
// without the monotonic clock, or within a second by an idle server. A turn only reads
// the clock, and asks the system about suspends when the time of day is not as expected.
//
// Rejected: to ask for CLOCK_BOOTTIME each time (a system call, as Go has it), and to
// count delays by the time of day as beanstalkd does (a clock that is set right at boot
// would then end all delays, or none).
//
// There is one Clock in a server. Whoever owns shards stamps a Batch with it, once a turn:
// event loops, the goroutines of the shards, and who visits shards for a reason of their
// own. The simulator brings a time of its own. It imports shard and shard/core.
package clock
