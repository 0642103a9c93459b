package kent_test

// Tests the client against a scripted daemon, for replies that a real daemon gives only rarely.

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kent.example/kent-go"
	pb "kent.example/kent-go/kentv1"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
)

type answer func(context.Context, *pb.AllocateRequest) (*pb.AllocateResponse, error)

// grantedSome answers with count numbers, starting at first.
func grantedSome(first uint64, token uint64, count uint64) answer {
	return func(_ context.Context, request *pb.AllocateRequest) (*pb.AllocateResponse, error) {
		packed := &pb.PackedIdentifiers{Width: 8, FenceSubject: 1, FenceToken: token}
		for i := range count {
			packed.Data = binary.BigEndian.AppendUint64(packed.Data, first+i)
		}
		return &pb.AllocateResponse{Identifiers: &pb.AllocateResponse_Packed{Packed: packed}}, nil
	}
}

// granted answers with the requested count of numbers.
func granted(first uint64, token uint64) answer {
	return func(ctx context.Context, request *pb.AllocateRequest) (*pb.AllocateResponse, error) {
		return grantedSome(first, token, request.GetCount())(ctx, request)
	}
}

func refused(code codes.Code, reason string, details ...protoadapt.MessageV1) answer {
	return func(context.Context, *pb.AllocateRequest) (*pb.AllocateResponse, error) {
		answer := status.New(code, "scripted")
		if reason != "" {
			details = append(details, &errdetails.ErrorInfo{Domain: "kent", Reason: reason})
		}
		answer, err := answer.WithDetails(details...)
		if err != nil {
			return nil, err
		}
		return nil, answer.Err()
	}
}

func after(wait time.Duration) *errdetails.RetryInfo {
	return &errdetails.RetryInfo{RetryDelay: durationpb.New(wait)}
}

func closed(heir string) answer {
	info := &errdetails.ErrorInfo{Domain: "kent", Reason: "CLOSED", Metadata: map[string]string{"heir": heir}}
	return refused(codes.FailedPrecondition, "", info)
}

// late answers after a while, or not at all if the caller cancels the call first.
func late(wait time.Duration, then answer) answer {
	return func(ctx context.Context, request *pb.AllocateRequest) (*pb.AllocateResponse, error) {
		select {
		case <-time.After(wait):
			return then(ctx, request)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// A script is a daemon that gives these answers in order. If it is set to repeat, it repeats the last answer forever.
type script struct {
	pb.UnimplementedAllocatorServer
	address string

	mu      sync.Mutex
	answers []answer
	repeat  bool
	sources []string
	counts  []uint64
	times   []time.Time
	tokens  []string
}

func play(t *testing.T, answers ...answer) *script {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &script{address: listener.Addr().String(), answers: answers}
	server := grpc.NewServer()
	pb.RegisterAllocatorServer(server, s)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return s
}

func (s *script) Allocate(ctx context.Context, request *pb.AllocateRequest) (*pb.AllocateResponse, error) {
	s.mu.Lock()
	s.sources = append(s.sources, request.GetSource())
	s.counts = append(s.counts, request.GetCount())
	s.times = append(s.times, time.Now())
	s.tokens = append(s.tokens, metadata.ValueFromIncomingContext(ctx, "authorization")...)
	if len(s.answers) == 0 {
		s.mu.Unlock()
		return nil, status.Error(codes.DataLoss, "the script is at its end")
	}
	answer := s.answers[0]
	if !s.repeat || len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	s.mu.Unlock()
	return answer(ctx, request)
}

// asked returns the sources that were requested.
func (s *script) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sources)
}

func connect(t *testing.T, endpoint string, options ...kent.Option) *kent.Client {
	t.Helper()
	client, err := kent.New(endpoint, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

// follow creates a client for scripted daemons. The client fetches a block only when the previous one is used up.
func follow(t *testing.T, scripts []*script, options ...kent.Option) *kent.Client {
	t.Helper()
	for _, other := range scripts[1:] {
		options = append(options, kent.WithFallback(other.address))
	}
	return connect(t, scripts[0].address, append(options, kent.WithLowWater(0))...)
}

func one(scripts ...*script) []*script { return scripts }

func wantNext(t *testing.T, source *kent.Source[kent.Number], want uint64) {
	t.Helper()
	if got, err := source.Next(t.Context()); err != nil || got != (kent.Number{Low: want}) {
		t.Errorf("%v, %v instead of %d", got, err, want)
	}
}

func wantAs[E error](t *testing.T, err error) (found E) {
	t.Helper()
	if !errors.As(err, &found) {
		t.Fatalf("%v is a %T", err, err)
	}
	return found
}

func within(t *testing.T, wait time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	t.Cleanup(cancel)
	return ctx
}

func TestOkTheDelayOfALimitIsWaitedForOnTheSameDaemon(t *testing.T) {
	t.Parallel()
	first, other := play(t, refused(codes.ResourceExhausted, "PACE", after(300*time.Millisecond)), granted(7, 1)), play(t)
	wantNext(t, follow(t, one(first, other)).Region("r"), 7)
	if first.times[1].Sub(first.times[0]) < 300*time.Millisecond || len(other.asked()) != 0 {
		t.Error(first.times, other.asked())
	}
}

func TestErrALongerLimitThanTheTimeoutIsToldAtOnce(t *testing.T) {
	t.Parallel()
	limit := refused(codes.ResourceExhausted, "LIMIT", after(time.Minute))
	source := follow(t, one(play(t, limit, limit))).Region("r")
	_, err := source.Next(t.Context())
	if limited := wantAs[*kent.LimitedError](t, err); limited.RetryAfter != time.Minute || limited.Reason != "LIMIT" {
		t.Error(limited)
	}
	if _, err = source.Take(t.Context(), 1); wantAs[*kent.LimitedError](t, err).Code != codes.ResourceExhausted {
		t.Error(err)
	}
	wantAs[*kent.Failure](t, err)
	if status.Code(err) != codes.ResourceExhausted {
		t.Error(status.Code(err))
	}
}

func TestErrACallerWithLessTimeThanTheFetchIsToldOfALimitToo(t *testing.T) {
	t.Parallel()
	first := play(t, late(50*time.Millisecond, refused(codes.ResourceExhausted, "LIMIT", after(2*time.Second))), granted(5, 1))
	source := follow(t, one(first)).Region("r")
	_, err := source.Next(within(t, time.Second))
	if limited := wantAs[*kent.LimitedError](t, err); limited.RetryAfter < time.Second || limited.RetryAfter > 2*time.Second {
		t.Error(limited)
	}
	wantNext(t, source, 5) // The same fetch continues.
	if len(first.asked()) != 2 {
		t.Error(first.asked())
	}
}

func TestErrAFullRegionIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	bad := &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "count"}}}
	first := play(t, refused(codes.ResourceExhausted, "FULL", bad))
	_, err := follow(t, one(first)).Region("r").Next(t.Context())
	found := wantAs[*kent.RefusedError](t, err)
	if found.Reason != "FULL" || found.Message != "scripted" || !slices.Equal(found.Fields, []string{"count"}) || found.Heir() != "" {
		t.Error(found.Failure)
	}
	if len(first.asked()) != 1 {
		t.Error(first.asked())
	}
}

func TestOkAnUnavailableDaemonHandsOverToTheNext(t *testing.T) {
	t.Parallel()
	first, other := play(t, refused(codes.Unavailable, "STORE")), play(t, granted(1, 1))
	client := follow(t, one(first, other))
	wantNext(t, client.Region("r"), 1)
	if _, err := pb.NewAllocatorClient(client.Conn()).Allocate(t.Context(), &pb.AllocateRequest{Source: "stub"}); err == nil {
		t.Error("granted")
	}
	if asked := other.asked(); asked[len(asked)-1] != "stub" {
		t.Error("stubs use another endpoint", asked)
	}
}

func TestOkTransientErrorsAreRetriedAndOthersAreNot(t *testing.T) {
	t.Parallel()
	for _, code := range []codes.Code{codes.Unavailable, codes.Unknown, codes.DeadlineExceeded, codes.Canceled, codes.Aborted, codes.Internal} {
		wantNext(t, follow(t, one(play(t, refused(code, ""), refused(code, ""), granted(3, 1)))).Region("r"), 3)
	}
	for _, code := range []codes.Code{
		codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.FailedPrecondition,
		codes.OutOfRange, codes.Unimplemented, codes.DataLoss, codes.Unauthenticated, codes.Internal,
	} {
		first := play(t, refused(code, "KENT"))
		_, err := follow(t, one(first)).Region("r").Next(t.Context())
		if found := wantAs[*kent.RefusedError](t, err); found.Code != code || len(first.asked()) != 1 {
			t.Error(found, first.asked())
		}
	}
}

func TestOkALostReplyIsRetriedAfterTheTimeoutOfAnAttempt(t *testing.T) {
	t.Parallel()
	first := play(t, late(time.Hour, granted(1, 1)), granted(1001, 1))
	wantNext(t, follow(t, one(first), kent.WithAttemptTimeout(100*time.Millisecond)).Region("r"), 1001)
}

func TestOkTheHeirOfAClosedRegionIsFollowedIfToldTo(t *testing.T) {
	t.Parallel()
	first := play(t, closed("region:r-zero"), granted(5, 1), granted(9, 1))
	source := follow(t, one(first), kent.WithFollowHeirs()).Region("r")
	wantNext(t, source, 5)
	if _, err := source.Fetch(t.Context(), 1, "id"); err != nil {
		t.Error(err)
	}
	if asked := first.asked(); !slices.Equal(asked, []string{"region:r", "region:r-zero", "region:r"}) {
		t.Error(asked)
	}
	_, err := follow(t, one(play(t, closed("region:r-zero")))).Region("r").Next(t.Context())
	if found := wantAs[*kent.RefusedError](t, err); found.Heir() != "region:r-zero" {
		t.Error(found)
	}
	again := play(t, closed("region:r"))
	again.repeat = true
	_, err = follow(t, one(again), kent.WithFollowHeirs()).Region("r").Next(t.Context())
	wantAs[*kent.UnusableError](t, err)
}

func TestOkAnOlderBlockIsRejectedButForARequestID(t *testing.T) {
	t.Parallel()
	source := follow(t, one(play(t, granted(1, 5), granted(50, 4), granted(90, 5), granted(10, 3)))).Region("r")
	for _, want := range []uint64{1, 90} {
		ids, err := source.Take(t.Context(), 2)
		if err != nil || !slices.Equal(ids, []kent.Number{{Low: want}, {Low: want + 1}}) {
			t.Error(ids, err)
		}
	}
	if ids, err := source.Fetch(t.Context(), 1, "id"); err != nil || ids[0].Low != 10 {
		t.Error(ids, err)
	}
}

func TestErrManyOlderBlocksInARow(t *testing.T) {
	t.Parallel()
	first := play(t, granted(1, 5), granted(50, 4))
	first.repeat = true
	source := follow(t, one(first), kent.WithBlockSize(1, 1), kent.WithRequestTimeout(time.Minute)).Region("r")
	wantNext(t, source, 1)
	if _, err := source.Next(t.Context()); !errors.Is(err, kent.ErrFenced) {
		t.Error(err)
	}
}

func TestErrAReplyWithTooManyIdentifiersOrNoneIsNotUsed(t *testing.T) {
	t.Parallel()
	empty := func(context.Context, *pb.AllocateRequest) (*pb.AllocateResponse, error) {
		return &pb.AllocateResponse{}, nil
	}
	for _, answer := range []answer{grantedSome(1, 1, 1001), empty} {
		_, err := follow(t, one(play(t, answer))).Region("r").Next(t.Context())
		wantAs[*kent.UnusableError](t, err)
	}
}

func TestOkTakeReturnsWhatItHasWithAnError(t *testing.T) {
	t.Parallel()
	first := play(t, granted(1, 1), refused(codes.FailedPrecondition, "SEALED"), refused(codes.FailedPrecondition, "SEALED"))
	source := follow(t, one(first), kent.WithBlockSize(3, 3)).Region("r")
	wantNext(t, source, 1)
	ids, err := source.Take(t.Context(), 5)
	if len(ids) != 2 || ids[1].Low != 3 || wantAs[*kent.RefusedError](t, err).Reason != "SEALED" {
		t.Error(ids, err)
	}
	if ids, err := source.Take(t.Context(), -1); err != nil || len(ids) != 0 {
		t.Error(ids, err)
	}
}

func TestOkTakeAsksForMoreThanAReplyMayHaveInPieces(t *testing.T) {
	t.Parallel()
	texts := func(_ context.Context, request *pb.AllocateRequest) (*pb.AllocateResponse, error) {
		ids := make([]string, request.GetCount())
		return &pb.AllocateResponse{Identifiers: &pb.AllocateResponse_Text{Text: &pb.TextIdentifiers{Ids: ids, FenceToken: 1}}}, nil
	}
	first := play(t, texts)
	first.repeat = true
	ids, err := follow(t, one(first)).XID().Take(t.Context(), 45_000)
	if err != nil || len(ids) != 45_000 || !slices.Equal(first.counts, []uint64{10_000, 10_000, 10_000, 10_000, 5_000}) {
		t.Error(len(ids), err, first.counts)
	}
}

func TestOkTheNextBlockIsFetchedBeforeTheFirstIsUsedUp(t *testing.T) {
	t.Parallel()
	first := play(t, granted(1, 1), late(200*time.Millisecond, granted(101, 1)))
	source := connect(t, first.address, kent.WithBlockSize(10, 10)).Region("r")
	for i := range uint64(10) {
		wantNext(t, source, i+1)
		if i == 4 {
			time.Sleep(100 * time.Millisecond) // The fetch is in progress now.
		}
	}
	if _, ok := source.TryNext(); ok || len(first.asked()) != 2 {
		t.Error(ok, first.asked())
	}
	wantNext(t, source, 101)
	if source.InHand() != 9 {
		t.Error(source.InHand())
	}
}

func TestErrTheDeadlineAndTheContextOfACaller(t *testing.T) {
	t.Parallel()
	first := play(t, late(time.Hour, granted(1, 1)))
	first.repeat = true
	source := follow(t, one(first), kent.WithAttemptTimeout(100*time.Millisecond)).Region("r")
	for name, call := range map[string]func(context.Context) error{
		"next":  func(ctx context.Context) error { _, err := source.Next(ctx); return err },
		"take":  func(ctx context.Context) error { _, err := source.Take(ctx, 1); return err },
		"fetch": func(ctx context.Context) error { _, err := source.Fetch(ctx, 1, "id"); return err },
	} {
		err := call(within(t, 400*time.Millisecond))
		if found := wantAs[*kent.UnavailableError](t, err); !errors.Is(err, context.DeadlineExceeded) || len(found.Tried) != 1 ||
			!strings.Contains(err.Error(), first.address) {
			t.Error(name, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		if err := call(ctx); !errors.Is(err, context.Canceled) {
			t.Error(name, err)
		}
	}
	_, err := source.Fetch(t.Context(), 1, "")
	wantAs[*kent.ConfigError](t, err)
}

func TestOkACallerWithMoreTimeOutlivesTheFetchOfAnother(t *testing.T) {
	t.Parallel()
	first := play(t, refused(codes.Unavailable, "", after(400*time.Millisecond)), granted(7, 1))
	source := follow(t, one(first), kent.WithRequestTimeout(300*time.Millisecond)).Region("r")
	source.TryNext() // Starts a fetch that soon times out.
	if got, err := source.Next(within(t, 10*time.Second)); err != nil || got.Low != 7 {
		t.Error(got, err)
	}
}

func TestOkCallsInFlightEndWhenTheClientIsClosed(t *testing.T) {
	t.Parallel()
	first := play(t, late(time.Hour, granted(1, 1)))
	first.repeat = true
	client := follow(t, one(first), kent.WithAttemptTimeout(time.Hour), kent.WithRequestTimeout(time.Hour))
	source := client.Region("r")
	results := make(chan error)
	for range 8 {
		go func() { _, err := source.Next(context.Background()); results <- err }()
		go func() { _, err := source.Take(context.Background(), 5); results <- err }()
		go func() { _, err := source.Fetch(context.Background(), 5, "id"); results <- err }()
	}
	time.Sleep(100 * time.Millisecond)
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	for range 24 {
		if err := <-results; !errors.Is(err, kent.ErrClosed) {
			t.Error(err)
		}
	}
	if _, ok := source.TryNext(); ok || source.InHand() != 0 {
		t.Error("in hand")
	}
	if _, err := client.UUIDv7().Next(t.Context()); !errors.Is(err, kent.ErrClosed) {
		t.Error(err)
	}
}

func TestOkCloseDropsWhatIsInHand(t *testing.T) {
	t.Parallel()
	client := follow(t, one(play(t, granted(1, 1))), kent.WithBlockSize(10, 10))
	source := client.Region("r")
	wantNext(t, source, 1)
	if err := client.Close(); err != nil || source.InHand() != 0 {
		t.Error(source.InHand(), err)
	}
	if _, err := source.Next(t.Context()); !errors.Is(err, kent.ErrClosed) {
		t.Error(err)
	}
	if ids, err := source.Take(t.Context(), 1); len(ids) != 0 || !errors.Is(err, kent.ErrClosed) {
		t.Error(ids, err)
	}
}

func TestOkATokenThatIsNotAcceptedIsReadAgainOnce(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Error(err)
		}
	}
	unknown := refused(codes.Unauthenticated, "TOKEN")
	change := func(to string) answer {
		return func(ctx context.Context, request *pb.AllocateRequest) (*pb.AllocateResponse, error) {
			write(to)
			return unknown(ctx, request)
		}
	}
	write("kent_a_A")
	first := play(t, change("kent_b_B"), granted(7, 1))
	wantNext(t, follow(t, one(first), kent.WithTokenFile(file)).Region("r"), 7)
	if !slices.Equal(first.tokens, []string{"Bearer kent_a_A", "Bearer kent_b_B"}) {
		t.Error(first.tokens)
	}
	for _, answers := range [][]answer{{unknown}, {change("kent_c_C"), change("kent_d_D")}} {
		first := play(t, answers...)
		_, err := follow(t, one(first), kent.WithTokenFile(file)).Region("r").Next(t.Context())
		if wantAs[*kent.RefusedError](t, err).Code != codes.Unauthenticated || len(first.asked()) != len(answers) {
			t.Error(err, first.asked())
		}
	}
}

func TestOkManyGoroutinesShareSmallBlocks(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	first := uint64(1)
	serve := func(ctx context.Context, request *pb.AllocateRequest) (*pb.AllocateResponse, error) {
		mu.Lock()
		defer mu.Unlock()
		reply, err := granted(first, 1)(ctx, request)
		first += request.GetCount()
		return reply, err
	}
	daemon := play(t, serve)
	daemon.repeat = true
	source := follow(t, one(daemon), kent.WithBlockSize(50, 200)).Region("r")
	var all sync.Map
	var group sync.WaitGroup
	for worker := range 64 {
		group.Go(func() {
			for i := range 200 {
				ids := make([]kent.Number, 1)
				var err error
				if (worker+i)%10 == 0 {
					ids, err = source.Take(t.Context(), 7)
				} else {
					ids[0], err = source.Next(t.Context())
				}
				if err != nil {
					t.Error(err)
					return
				}
				for _, id := range ids {
					if _, twice := all.LoadOrStore(id, true); twice || id.High != 0 {
						t.Errorf("%v twice", id)
					}
				}
			}
		})
	}
	group.Wait()
}
