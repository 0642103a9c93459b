//go:build !linux || kent_wall_clock

package kent

import "time"

// sinceBoot returns false, so the age of a block follows the wall clock, which includes the time during which the
// machine was suspended. The tag kent_wall_clock selects this function for tests on Linux.
func sinceBoot() (time.Duration, bool) {
	return 0, false
}
