package kent

// Calls to the daemons: the endpoint of the next attempt, and the wait before it.

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	pb "kent.example/kent-go/kentv1"

	"google.golang.org/grpc/codes"
)

const (
	pauseMin = 20 * time.Millisecond
	pauseMax = time.Second
	// The pause after a block from a replica that lags behind.
	lag = 20 * time.Millisecond
	// After this many rejected blocks in a row, the request fails.
	rejectedMax = 300
)

// attempts is the state of a request's attempts, which continue until the request's deadline.
type attempts struct {
	endpoints    []endpoint
	rotation     *rotation
	deadline     time.Time
	progress     *progress
	withoutPause int
	pause        time.Duration
	rejected     int
	readToken    bool
}

// after returns how long to wait after a failed attempt, or the final error if another attempt cannot help.
func (a *attempts) after(index int, failure *Failure, hasOtherToken func() bool) (time.Duration, error) {
	if !failure.isTransient() {
		if failure.Code == codes.Unauthenticated && !a.readToken && hasOtherToken() {
			a.readToken = true
			return 0, nil
		}
		return 0, &RefusedError{failure}
	}
	// A daemon that reports a limit is healthy, so another daemon would not help.
	if failure.Code != codes.ResourceExhausted {
		a.rotation.leave(index)
	}
	a.progress.tried(a.endpoints[index].address, failure)
	wait := failure.RetryAfter
	if !failure.HasRetry {
		wait = a.backoff()
	}
	if failure.Reason == "LIMIT" {
		until := time.Now().Add(wait)
		if !until.Before(a.deadline) {
			return 0, &LimitedError{failure}
		}
		a.progress.limited(failure, until)
	}
	return a.inTime(wait)
}

// afterOlder returns how long to wait after a block with a fencing token lower than one already seen.
func (a *attempts) afterOlder(index int) (time.Duration, error) {
	a.rejected++
	if a.rejected >= rejectedMax {
		return 0, ErrFenced
	}
	a.progress.tried(a.endpoints[index].address, errOlder)
	a.rotation.leave(index)
	return a.inTime(lag)
}

// backoff returns the pause before the next attempt: 0 while there are other endpoints to try, and then a growing time
// with jitter.
func (a *attempts) backoff() time.Duration {
	if a.withoutPause > 0 {
		a.withoutPause--
		return 0
	}
	pause := a.pause + rand.N(a.pause)
	a.pause = min(a.pause*2, pauseMax)
	return pause
}

func (a *attempts) inTime(wait time.Duration) (time.Duration, error) {
	if !time.Now().Add(wait).Before(a.deadline) {
		return 0, a.progress.unavailable()
	}
	return wait, nil
}

// progress is the state of a request that is visible to its waiting callers.
type progress struct {
	mu      sync.Mutex
	all     []Tried
	failure *Failure // The limit that the request has met. It ends at until.
	until   time.Time
	news    chan struct{} // Closed when the request meets a limit.
}

func newProgress() *progress {
	return &progress{news: make(chan struct{})}
}

func (p *progress) tried(endpoint string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = slices.DeleteFunc(p.all, func(one Tried) bool { return one.Endpoint == endpoint })
	p.all = append(p.all, Tried{endpoint, err})
}

func (p *progress) limited(failure *Failure, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failure, p.until = failure, until
	close(p.news)
	p.news = make(chan struct{})
}

// limit returns an error if a limit lasts beyond the deadline. Otherwise, it returns a channel that is closed when the
// request meets a limit.
func (p *progress) limit(deadline time.Time) (<-chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failure == nil || p.until.Before(deadline) {
		return p.news, nil
	}
	failure := *p.failure
	failure.RetryAfter = max(0, time.Until(p.until))
	return nil, &LimitedError{&failure}
}

func (p *progress) unavailable() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &UnavailableError{Tried: slices.Clone(p.all)}
}

// ended returns the error with which a request must stop, or nil if it can continue.
func (c *Client) ended(ctx context.Context, p *progress) error {
	if c.ctx.Err() != nil {
		return ErrClosed
	}
	switch ctx.Err() {
	case nil:
		return nil
	case context.DeadlineExceeded:
		return p.unavailable()
	default:
		return ctx.Err()
	}
}

// bounded returns a context with a deadline: the deadline of ctx if it has one, and otherwise the request timeout.
func (c *Client) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.settings.requestTimeout)
}

// allocate fetches a block. It tries one endpoint after another until the deadline of ctx. It also returns the moment
// at which the block was requested.
func (c *Client) allocate(
	ctx context.Context, request *pb.AllocateRequest, fence func(*pb.AllocateResponse) (subject, uint64), p *progress,
) (*pb.AllocateResponse, moment, error) {
	deadline, _ := ctx.Deadline()
	a := attempts{
		endpoints: c.endpoints, rotation: &c.rotation, deadline: deadline, progress: p, withoutPause: len(c.endpoints) - 1, pause: pauseMin,
	}
	for {
		if err := c.ended(ctx, p); err != nil {
			return nil, moment{}, err
		}
		index, sent, asked := c.rotation.use(), c.token.get(), now()
		reply, err := c.attempt(ctx, index, request)
		var wait time.Duration
		if err == nil {
			// A retry with a request ID returns the block of the first grant, whose token can be lower than one already seen.
			if c.fences.admit(fence(reply)) || request.GetRequestId() != "" {
				return reply, asked, nil
			}
			wait, err = a.afterOlder(index)
		} else {
			if c.ctx.Err() != nil || ctx.Err() == context.Canceled {
				return nil, moment{}, c.ended(ctx, p)
			}
			wait, err = a.after(index, newFailure(err), func() bool { return c.token.refresh() != sent })
		}
		if err != nil {
			return nil, moment{}, err
		}
		c.sleep(ctx, wait)
	}
}

// attempt makes one call. Close ends the call by closing the connections.
func (c *Client) attempt(ctx context.Context, index int, request *pb.AllocateRequest) (*pb.AllocateResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, c.settings.attemptTimeout)
	defer cancel()
	return pb.NewAllocatorClient(c.conns[index]).Allocate(ctx, request)
}

func (c *Client) sleep(ctx context.Context, wait time.Duration) {
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-c.ctx.Done():
	}
}
