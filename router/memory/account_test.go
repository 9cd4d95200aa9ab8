package memory

import "testing"

// TestAllowance: a connection may keep all it wants while half of the bound is free, and
// least from three quarters on.
func TestAllowance(t *testing.T) {
	const bound, full, least = 1 << 20, 1000, 100
	a := NewAccount(bound)
	var last int64
	for _, step := range []struct {
		sum  int64
		want int
	}{
		{0, full}, {bound / 2, full}, {bound * 5 / 8, full / 2}, {bound * 3 / 4, least}, {2 * bound, least}, {bound / 4, full},
	} {
		a.Add(int(step.sum - last))
		last = step.sum
		if got := a.Allow(full, least); got != step.want {
			t.Errorf("%d of %d bytes are used: %d are allowed, want %d", step.sum, bound, got, step.want)
		}
		if got := a.Excess(); got != step.sum-bound || a.Sum() != step.sum {
			t.Errorf("%d of %d bytes are used: %d above, %d in all", step.sum, bound, got, a.Sum())
		}
	}
}

// TestHighIsTold: once for any number of additions, not below half of the bound, and not
// of what is given back.
func TestHighIsTold(t *testing.T) {
	a := NewAccount(1000)
	told := func(want bool) {
		t.Helper()
		select {
		case <-a.High():
			if !want {
				t.Errorf("told of %d bytes", a.Sum())
			}
		default:
			if want {
				t.Errorf("not told of %d bytes", a.Sum())
			}
		}
	}
	a.Add(500)
	told(false)
	a.Add(1)
	a.Add(100)
	told(true)
	told(false)
	a.Add(-50)
	told(false)
}

// TestRetainedPartsCountOnce: however many read a part, and only while no job has it.
func TestRetainedPartsCountOnce(t *testing.T) {
	a := NewAccount(1 << 30)
	p, alone := make([]byte, 1000), make([]byte, 2000)
	wants := func(sum int64, parts int) {
		t.Helper()
		if a.Sum() != sum || a.Parts() != parts {
			t.Errorf("%d bytes in %d parts, want %d in %d", a.Sum(), a.Parts(), sum, parts)
		}
	}
	a.Orphan(p) // nobody reads it
	wants(0, 0)
	a.Retain(p, false)
	a.Retain(p, false)
	wants(0, 1)
	a.Retain(alone, true)
	a.Retain(alone, true)
	wants(2000, 2)
	a.Orphan(p)
	a.Orphan(p)
	wants(3000, 2)
	a.Release(p)
	wants(3000, 2)
	a.Release(p)
	wants(2000, 1)
	a.Release(alone)
	a.Release(alone)
	wants(0, 0)
	defer func() {
		if recover() == nil {
			t.Error("no panic at a release too many")
		}
	}()
	a.Release(p)
}

// TestNoAccount: a nil account counts nothing, and allows all.
func TestNoAccount(t *testing.T) {
	var a *Account
	p := make([]byte, 10)
	a.Add(100)
	a.Retain(p, true)
	a.Orphan(p)
	a.Release(p)
	if got := a.Allow(1000, 1); got != 1000 || a.Excess() > 0 {
		t.Errorf("%d are allowed, %d above", got, a.Excess())
	}
}
