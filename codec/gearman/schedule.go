package gearman

import (
	"time"

	"polystalk/codec/beanstalk"
)

// anyValue is the value of a Schedule's field that matches every moment.
const anyValue = -1

// A Schedule determines the minute in which a job of SUBMIT_JOB_SCHED runs: the next one that
// matches every field. A field is a number, or -1 if every value matches. Source: the PROTOCOL
// document that announced the packet; gearmand has never run such a job.
type Schedule struct {
	Minute  int8 // 0 to 59
	Hour    int8 // 0 to 23
	Day     int8 // of the month, 1 to 31
	Month   int8 // 1 to 12
	Weekday int8 // 0 to 6; 0 is Monday
}

// parseSchedule reads minute, hour, day, month and weekday. An empty field or an asterisk matches
// every value. Not ok: any other field that is no number in its range, or a date that never occurs.
func parseSchedule(args [][]byte) (s Schedule, ok bool) {
	fields := [...]struct {
		to       *int8
		min, max int8
	}{{&s.Minute, 0, 59}, {&s.Hour, 0, 23}, {&s.Day, 1, 31}, {&s.Month, 1, 12}, {&s.Weekday, 0, 6}}
	for i, f := range fields {
		if *f.to, ok = parseField(args[i], f.min, f.max); !ok {
			return s, false
		}
	}
	return s, s.Day == anyValue || s.Month == anyValue || s.Day <= daysMax[s.Month]
}

// daysMax is the maximum number of days of each month.
var daysMax = [...]int8{1: 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

func parseField(arg []byte, minimum, maximum int8) (v int8, ok bool) {
	if len(arg) == 0 || string(arg) == "*" {
		return anyValue, true
	}
	n, rest, ok := beanstalk.ReadDigits(arg)
	if !ok || len(rest) > 0 || n < uint64(minimum) || n > uint64(maximum) {
		return 0, false
	}
	return int8(n), true
}

// yearsMax bounds the search for a match: a 29 February on a given weekday can be 40 years away.
const yearsMax = 41

// Next returns the beginning of the first matching minute that does not begin before now, in the
// time zone of now. At a change of summer time, minutes that do not exist never match, and minutes
// that occur twice match twice. Not ok: there is none within yearsMax, for example for an hour that
// the change always skips.
func (s Schedule) Next(now time.Time) (t time.Time, ok bool) {
	t = now.Truncate(time.Second).Add(-time.Duration(now.Second()) * time.Second)
	if t.Before(now) {
		t = t.Add(time.Minute)
	}
	for last := now.Year() + yearsMax; t.Year() <= last; {
		switch {
		case !s.matchesDate(t):
			t = s.skip(t)
		case s.Hour != anyValue && t.Hour() != int(s.Hour):
			t = t.Add(time.Duration(60-t.Minute()) * time.Minute)
		case s.Minute != anyValue && t.Minute() != int(s.Minute):
			t = t.Add(time.Minute)
		default:
			return t, true
		}
	}
	return time.Time{}, false
}

func (s Schedule) matchesDate(t time.Time) bool {
	return (s.Day == anyValue || t.Day() == int(s.Day)) &&
		(s.Month == anyValue || t.Month() == time.Month(s.Month)) &&
		(s.Weekday == anyValue || (t.Weekday()+6)%7 == time.Weekday(s.Weekday))
}

// skip returns the beginning of a day after the day of t, which does not match: at the latest the
// first day that matches. If that day begins later than at midnight, Date may return a moment in
// the old day; then Next continues minute by minute.
func (s Schedule) skip(t time.Time) time.Time {
	year, month, day := t.Date()
	switch {
	case s.Month != anyValue && month != time.Month(s.Month):
		if month > time.Month(s.Month) {
			year++
		}
		month, day = time.Month(s.Month), 1
	case s.Day != anyValue && day < int(s.Day):
		day = int(s.Day) // in a shorter month, Date makes it a day of the next month
	case s.Day != anyValue && day > int(s.Day):
		month, day = month+1, 1
	default:
		day++
	}
	next := time.Date(year, month, day, 0, 0, 0, 0, t.Location())
	if !next.After(t) {
		return t.Add(time.Minute)
	}
	return next
}
