package gearman

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"
	_ "time/tzdata" // the zones below, wherever the test runs
)

func schedule(t *testing.T, fields string) (Schedule, bool) {
	t.Helper()
	return parseSchedule(bytes.Split([]byte(fields), []byte(" ")))
}

func TestScheduleRefuses(t *testing.T) {
	for _, fields := range []string{
		"60 * * * *", "* 24 * * *", "* * 0 * *", "* * 32 * *", "* * * 0 *", "* * * 13 *", "* * * * 7",
		"-1 * * * *", "+1 * * * *", "x * * * *", "1x * * * *", "1, * * * *", "*/5 * * * *", "99999999999999999999 * * * *",
		"* * 30 2 *", "* * 31 4 *", "* * 31 11 *",
	} {
		if s, ok := schedule(t, fields); ok {
			t.Errorf("%q is %+v", fields, s)
		}
	}
}

func TestScheduleNext(t *testing.T) {
	for _, tt := range []struct {
		zone, fields, now, want string
	}{
		{"UTC", "* * * * *", "2026-11-21 04:48:00", "2026-11-21 04:48"},
		{"UTC", "    ", "2026-11-21 04:48:01", "2026-11-21 04:49"},
		{"UTC", "0 * * * *", "2026-11-21 04:48:15", "2026-11-21 05:00"},
		{"UTC", "47 04 * * *", "2026-11-21 04:48:15", "2026-11-22 04:47"},
		{"UTC", "48 4 * * *", "2026-11-21 04:48:15", "2026-11-22 04:48"},
		{"UTC", "59 23 31 12 *", "2026-11-21 04:48:15", "2026-12-31 23:59"},
		{"UTC", "59 23 31 12 *", "2026-12-31 23:59:30", "2027-12-31 23:59"},
		{"UTC", "* * 31 * *", "2026-11-21 04:48:15", "2026-12-31 00:00"},
		{"UTC", "* * * 1 *", "2026-11-21 04:48:15", "2027-01-01 00:00"},
		{"UTC", "0 0 * * 0", "2026-11-21 04:48:15", "2026-11-23 00:00"}, // a Saturday; Monday is 0
		{"UTC", "0 0 * * 6", "2026-11-21 04:48:15", "2026-11-22 00:00"},
		{"UTC", "0 12 13 * 4", "2026-11-21 04:48:15", "2027-08-13 12:00"}, // day and weekday both
		{"UTC", "* * 29 2 6", "2032-03-01 00:00:00", "2060-02-29 00:00"},  // a Sunday
		{"UTC", "* * 29 2 6", "2088-03-01 00:00:00", "2128-02-29 00:00"},
		// Clocks go from 02:00 to 03:00: the hour is skipped.
		{"Europe/Berlin", "30 2 * * *", "2026-03-28 12:00:00", "2026-03-30 02:30"},
		{"Europe/Berlin", "30 * * * *", "2026-03-29 01:45:00", "2026-03-29 03:30"},
		{"Europe/Berlin", "30 2 31 3 6", "2026-01-01 00:00:00", ""}, // 31 March, a Sunday, is always the day of the change
		// Midnight does not exist that day.
		{"Africa/Cairo", "* * 24 4 *", "2026-04-23 12:00:00", "2026-04-24 01:00"},
		{"America/Santiago", "0 * * * *", "2026-09-05 23:10:00", "2026-09-06 01:00"},
		{"America/Santiago", "* * 6 9 *", "2026-09-05 12:00:00", "2026-09-06 01:00"},
		{"Africa/Cairo", "0 0 * * *", "2026-04-23 12:00:00", "2026-04-25 00:00"},
		{"Asia/Kolkata", "0 6 * * *", "2026-11-21 06:00:30", "2026-11-22 06:00"},
		{"Australia/Lord_Howe", "15 2 * * *", "2026-10-03 12:00:00", "2026-10-05 02:15"}, // half an hour is skipped
	} {
		loc, err := time.LoadLocation(tt.zone)
		if err != nil {
			t.Fatal(err)
		}
		now, err := time.ParseInLocation(time.DateTime, tt.now, loc)
		if err != nil {
			t.Fatal(err)
		}
		s, ok := schedule(t, tt.fields)
		if !ok {
			t.Errorf("%q is refused", tt.fields)
			continue
		}
		got := ""
		if next, ok := s.Next(now); ok {
			got = next.Format("2006-01-02 15:04")
			if next.Before(now) {
				t.Errorf("%v is before %v", next, now)
			}
		}
		if got != tt.want {
			t.Errorf("%s: %q after %s is %q, want %q", tt.zone, tt.fields, tt.now, got, tt.want)
		}
	}
}

// A minute that comes twice matches twice.
func TestScheduleInTheHourThatRepeats(t *testing.T) {
	loc, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	s, _ := schedule(t, "30 2 * * *")
	first, _ := s.Next(time.Date(2026, 10, 25, 0, 0, 0, 0, loc))
	second, ok := s.Next(first.Add(time.Nanosecond))
	if !ok || second.Sub(first) != time.Hour {
		t.Errorf("%v, then %v", first, second)
	}
}

// Next finds the same day as a walk over all of them.
func TestScheduleNextAgainstAWalk(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	pick := func(low, high int) int8 {
		if rng.IntN(2) == 0 {
			return anyValue
		}
		return int8(low + rng.IntN(high-low+1))
	}
	for range 300 {
		s := Schedule{Minute: 0, Hour: 12, Day: pick(1, 31), Month: pick(1, 12), Weekday: pick(0, 6)}
		now := time.Date(2000+rng.IntN(60), time.Month(1+rng.IntN(12)), 1+rng.IntN(28), 0, 0, 0, 0, time.UTC)
		want := now.Add(12 * time.Hour)
		for !s.matchesDate(want) && want.Year() <= now.Year()+yearsMax {
			want = want.AddDate(0, 0, 1)
		}
		switch got, ok := s.Next(now); {
		case ok != (want.Year() <= now.Year()+yearsMax), ok && !got.Equal(want):
			t.Fatalf("%+v after %v is %v, %v; want %v", s, now, got, ok, want)
		}
	}
}

// BenchmarkScheduleNext looks for what never comes: it takes as long as anything.
func BenchmarkScheduleNext(b *testing.B) {
	loc, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		b.Fatal(err)
	}
	s := Schedule{Minute: 30, Hour: 2, Day: 31, Month: 3, Weekday: 6}
	now := time.Date(2026, 4, 1, 0, 0, 0, 0, loc)
	for b.Loop() {
		if at, ok := s.Next(now); ok {
			b.Fatal(at)
		}
	}
}
