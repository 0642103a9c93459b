package kent

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	pb "kent.example/kent-go/kentv1"
)

const (
	// A block should last about this long. If the last block lasted less, the size doubles. If it lasted over ten times as
	// long, the size halves.
	lasts = time.Second
	// The maximum number of moves to an heir within one fetch. An heir can be closed before it is used, but this is rare.
	movesMax = 16
)

// A Source prefetches identifiers of one source, for any number of goroutines.
type Source[T any] struct {
	client  *Client
	name    string
	kind    kind[T]
	sizeMax int
	// The block in use. It is never nil.
	block atomic.Pointer[block[T]]

	mu        sync.Mutex
	heir      string // The name of the heir in use, if any.
	following *block[T]
	fetching  *fetch
	size      int
	asked     *moment // The start of the last fetch, if it succeeded.
}

// A fetch is a request in progress for a block.
type fetch struct {
	*progress
	deadline time.Time
	done     chan struct{}
	err      error // Valid once done is closed.
}

func newSource[T any](c *Client, name string, of kind[T]) *Source[T] {
	most := min(c.settings.blockSizeMax, of.countMax())
	s := &Source[T]{client: c, name: name, kind: of, sizeMax: most, size: min(c.settings.blockSize, most)}
	s.drop()
	return s
}

// String returns the name of the source.
func (s *Source[T]) String() string {
	return s.name
}

// Next returns the next identifier. It waits if none is prefetched.
func (s *Source[T]) Next(ctx context.Context) (T, error) {
	if id, ok := s.pop(); ok {
		return id, nil
	}
	return s.wait(ctx)
}

// TryNext returns the next identifier if one is prefetched. Otherwise, it starts a fetch and returns false.
func (s *Source[T]) TryNext() (T, bool) {
	for {
		if id, ok := s.pop(); ok {
			return id, true
		}
		if !s.advance() {
			// After a failure, a later call starts another fetch.
			_, _ = s.refill(time.Time{})
			var none T
			return none, false
		}
	}
}

// Take returns n identifiers, prefetched ones first. If it fails, it also returns the identifiers taken so far.
func (s *Source[T]) Take(ctx context.Context, n int) ([]T, error) {
	ctx, cancel := s.client.bounded(ctx)
	defer cancel()
	ids := make([]T, 0, min(max(n, 0), s.sizeMax))
	for len(ids) < n {
		part, low := s.block.Load().take(n - len(ids))
		if low {
			_, _ = s.refill(time.Time{})
		}
		if len(part) == 0 && !s.advance() {
			var err error
			part, _, err = s.grant(ctx, min(n-len(ids), s.sizeMax), newProgress())
			if err != nil {
				return ids, err
			}
		}
		ids = append(ids, part...)
	}
	return ids, nil
}

// Fetch returns one grant of n identifiers from a strict region. Another call with the same request ID returns the same
// identifiers. Use a version 7 UUID as the request ID. Fetch does not follow the heir of a closed region, because the
// heir would grant the same request ID again.
func (s *Source[T]) Fetch(ctx context.Context, n int, requestID string) ([]T, error) {
	if requestID == "" {
		return nil, &ConfigError{"a request ID must not be empty"}
	}
	ctx, cancel := s.client.bounded(ctx)
	defer cancel()
	ids, _, err := s.request(ctx, s.name, n, requestID, newProgress())
	return ids, err
}

// InHand returns the number of prefetched identifiers.
func (s *Source[T]) InHand() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	count := s.block.Load().left()
	if s.following != nil {
		count += s.following.left()
	}
	return count
}

func (s *Source[T]) pop() (id T, ok bool) {
	b := s.block.Load()
	id, ok, low := b.pop()
	if low {
		_, _ = s.refill(time.Time{})
	}
	return id, ok
}

// advance moves to the next block if the current one is used up or too old. It returns whether there is an identifier
// to pop.
func (s *Source[T]) advance() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for !s.block.Load().isUsable() {
		if s.following == nil {
			return false
		}
		s.block.Store(s.following)
		s.following = nil
	}
	return true
}

// wait returns the next identifier once a fetch has succeeded.
func (s *Source[T]) wait(ctx context.Context) (none T, err error) {
	ctx, cancel := s.client.bounded(ctx)
	defer cancel()
	deadline, _ := ctx.Deadline()
	for {
		if id, ok := s.pop(); ok {
			return id, nil
		}
		if s.advance() {
			continue
		}
		fetch, err := s.refill(deadline)
		if err != nil {
			return none, err
		}
		if fetch == nil {
			continue
		}
		if err := s.await(ctx, fetch, deadline); err != nil {
			// Another caller started this fetch with an earlier deadline, so try again.
			if fetch.deadline.Before(deadline) && isTemporary(err) && ctx.Err() == nil {
				continue
			}
			return none, err
		}
	}
}

func isTemporary(err error) bool {
	var unavailable *UnavailableError
	var limited *LimitedError
	return errors.As(err, &unavailable) || errors.As(err, &limited)
}

// await waits for the end of a fetch, or for the caller's deadline.
func (s *Source[T]) await(ctx context.Context, f *fetch, deadline time.Time) error {
	for {
		news, err := f.limit(deadline)
		if err != nil {
			return err
		}
		select {
		case <-f.done:
			return f.err
		case <-ctx.Done():
			return s.client.ended(ctx, f.progress)
		case <-news:
		}
	}
}

// refill starts a fetch if none is in progress. It returns the fetch, or nil if the next block is already prefetched.
func (s *Source[T]) refill(deadline time.Time) (*fetch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client.ctx.Err() != nil {
		return nil, ErrClosed
	}
	if s.fetching != nil {
		return s.fetching, nil
	}
	if s.following != nil && s.following.isUsable() {
		return nil, nil
	}
	s.following = nil
	if least := time.Now().Add(s.client.settings.requestTimeout); deadline.Before(least) {
		deadline = least
	}
	s.fetching = &fetch{progress: newProgress(), deadline: deadline, done: make(chan struct{})}
	go s.run(s.fetching, s.nextSize())
	return s.fetching, nil
}

// run fetches the next block.
func (s *Source[T]) run(f *fetch, size int) {
	ctx, cancel := context.WithDeadline(context.Background(), f.deadline)
	defer cancel()
	ids, asked, err := s.grant(ctx, size, f.progress)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client.ctx.Err() != nil {
		err = ErrClosed
	}
	if err == nil {
		s.following = newBlock(ids, asked, s.kind.ages, s.client.settings)
	} else {
		s.asked = nil
	}
	s.fetching = nil
	f.err = err
	close(f.done)
}

// nextSize returns the size of the block to fetch now.
func (s *Source[T]) nextSize() int {
	if s.asked != nil {
		switch lasted := s.asked.age(); {
		case lasted < lasts:
			s.size = min(s.size*2, s.sizeMax)
		case lasted > 10*lasts:
			s.size = max(s.size/2, min(s.client.settings.blockSize, s.sizeMax))
		}
	}
	asked := now()
	s.asked = &asked
	return s.size
}

// grant requests a block from the source or, with WithFollowHeirs, from its heir.
func (s *Source[T]) grant(ctx context.Context, count int, p *progress) ([]T, moment, error) {
	for range movesMax {
		name := s.inUse()
		ids, asked, err := s.request(ctx, name, count, "", p)
		var refused *RefusedError
		if !s.client.settings.followHeirs || !errors.As(err, &refused) || refused.Heir() == "" {
			return ids, asked, err
		}
		s.mu.Lock()
		s.heir = refused.Heir()
		s.mu.Unlock()
	}
	return nil, moment{}, unusable("%s is closed, as are its heirs", s.inUse())
}

// inUse returns the name of the source or of its heir.
func (s *Source[T]) inUse() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.heir != "" {
		return s.heir
	}
	return s.name
}

func (s *Source[T]) request(ctx context.Context, name string, count int, requestID string, p *progress) ([]T, moment, error) {
	fence := func(reply *pb.AllocateResponse) (subject, uint64) { return s.kind.fence(name, reply) }
	// The daemon refuses a count of 0, and explains why.
	request := &pb.AllocateRequest{Source: name, Count: uint64(max(count, 0)), Encoding: s.kind.encoding, RequestId: requestID}
	reply, asked, err := s.client.allocate(ctx, request, fence, p)
	if err != nil {
		return nil, moment{}, err
	}
	ids, err := s.kind.identifiers(reply, count)
	return ids, asked, err
}

// drop drops all prefetched identifiers.
func (s *Source[T]) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.block.Store(&block[T]{mark: -1})
	s.following = nil
}
