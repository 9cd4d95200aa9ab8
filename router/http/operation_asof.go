package http

import (
	"strconv"
	"strings"
	"time"

	wire "polystalk/codec/admin"
	"polystalk/shard/core"
)

// asOfBoot is how many characters name the process in an as_of.
const asOfBoot = 8

// asOfText is a moment as answers have it: the time of day, which another process
// understands after a restart, and for this one the very moment, which no clock that is set
// can move:
//
//	2026-11-22T06:33:00.123456789Z.1f2e3d4c18a9e95de7
//	└─ time of day                 └─ process
//	                                       └─ moment, hexadecimal
func (a *API) asOfText(t core.Time) string {
	return a.op.DayOf(t).Format(time.RFC3339Nano) + "." + a.asOfProcess() + strconv.FormatInt(int64(t), 16)
}

func (a *API) asOfProcess() string { return Hashed(a.boot, "as_of")[:asOfBoot] }

// readAsOf reads what asOfText has written, in this process or in one before it, or a time
// of day alone.
func (a *API) readAsOf(text string) (core.Time, error) {
	unfit := func(why, remedy string) error { return wire.Invalid.With("as_of", why, remedy) }
	day, exact, ours := strings.Cut(text, "Z.")
	if ours {
		day += "Z"
		if digits, ok := strings.CutPrefix(exact, a.asOfProcess()); ok {
			n, err := strconv.ParseInt(digits, 16, 64)
			if err != nil || n == 0 || core.Time(n) > a.op.Moment() {
				return 0, unfit("it is no moment", "give what the dry run has as as_of")
			}
			return core.Time(n), nil
		}
	}
	at, err := time.Parse(time.RFC3339Nano, day)
	if err != nil {
		return 0, unfit("it is no moment", "give what the dry run has as as_of, a time as 2026-01-31T12:00:00Z, or leave it out")
	}
	if at.Year() < 1970 { // nanoseconds since then are what there is
		return 0, unfit("it is before all jobs", "give what the dry run has as as_of, or leave it out")
	}
	if now := a.op.Moment(); at.After(a.op.DayOf(now)) {
		return 0, unfit("it is to come", "give what the dry run has as as_of, or leave it out")
	}
	return a.op.AtDay(at), nil
}
