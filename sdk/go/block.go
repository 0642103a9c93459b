package kent

import (
	"sync/atomic"
	"time"
)

// A block holds prefetched identifiers. Goroutines take them without a lock.
type block[T any] struct {
	ids []T
	// The index of the next identifier. It exceeds the length once the block is used up.
	next atomic.Int64
	// The goroutine that takes the identifier at this index starts the next fetch.
	mark  int64
	asked moment
	// The age at which the identifiers expire, or 0 if they do not expire.
	maxAge time.Duration
}

func newBlock[T any](ids []T, asked moment, ages bool, set *settings) *block[T] {
	left := int(float64(len(ids)) * set.lowWater)
	b := &block[T]{ids: ids, mark: int64(max(0, len(ids)-1-left)), asked: asked}
	if ages {
		b.maxAge = set.maxAge
	}
	return b
}

// pop returns the next identifier if there is one, and whether it is time to fetch the next block.
func (b *block[T]) pop() (id T, ok, low bool) {
	if b.isOld() {
		return id, false, false
	}
	at := b.next.Add(1) - 1
	if at >= int64(len(b.ids)) {
		return id, false, false
	}
	return b.ids[at], true, at == b.mark
}

// take returns up to n identifiers, and whether it is time to fetch the next block.
func (b *block[T]) take(n int) (ids []T, low bool) {
	if b.isOld() {
		return nil, false
	}
	all := int64(len(b.ids))
	count := min(int64(n), all) // A larger count could make next overflow.
	at := b.next.Add(count) - count
	if at >= all {
		return nil, false
	}
	end := min(at+count, all)
	return b.ids[at:end], at <= b.mark && b.mark < end
}

func (b *block[T]) isOld() bool {
	return b.maxAge > 0 && b.asked.age() > b.maxAge
}

func (b *block[T]) left() int {
	return int(max(0, int64(len(b.ids))-b.next.Load()))
}

func (b *block[T]) isUsable() bool {
	return b.left() > 0 && !b.isOld()
}
