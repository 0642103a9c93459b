package kent

import "sync"

// The subject of a fencing token: a slot of the cluster, or a region. The number of a region is unique only in its
// space.
type subject struct {
	source string // empty for a slot
	number uint64
}

// fences holds the highest fencing tokens that a client has seen.
type fences struct {
	mu      sync.Mutex
	highest map[subject]uint64
}

// admit records a token. It returns false if a higher token was already seen for the same subject.
func (f *fences) admit(of subject, token uint64) bool {
	if token == 0 {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if token < f.highest[of] {
		return false
	}
	if f.highest == nil {
		f.highest = map[subject]uint64{}
	}
	f.highest[of] = token
	return true
}
