//go:build !linux

package kent

import "time"

// sinceBoot returns false: the age of a block then follows the wall clock, which counts the time in which the machine was suspended.
func sinceBoot() (time.Duration, bool) {
	return 0, false
}
