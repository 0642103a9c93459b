package kent

// The age of a block, including the time during which the machine was suspended.

import "time"

// If the wall clock and the monotonic clock differ by more than this, a slower clock is read.
const clockDrift = 50 * time.Millisecond

// A moment is a point in time, as read from all clocks.
type moment struct {
	time time.Time // with a monotonic reading, which stops while the machine is suspended
	wall int64
	boot time.Duration
}

func now() moment {
	boot, _ := sinceBoot()
	t := time.Now()
	return moment{time: t, wall: t.UnixNano(), boot: boot}
}

// age returns the time since the moment. It reads the clock that counts suspended time only if the wall clock and the
// monotonic clock disagree, such as after a suspend or a step, because reading that clock takes ten times as long.
func (m *moment) age() time.Duration {
	t := time.Now()
	steady := t.Sub(m.time)
	wall := time.Duration(t.UnixNano() - m.wall)
	if step := wall - steady; -clockDrift < step && step < clockDrift {
		return steady
	}
	if boot, ok := sinceBoot(); ok {
		return boot - m.boot
	}
	return max(steady, wall)
}
