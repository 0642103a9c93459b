package kent

// The errors of the client, and what the error of a call means for the next attempt.

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ErrClosed is returned once the client is closed.
var ErrClosed = errors.New("kent: the client is closed")

// ErrFenced is returned if many blocks in a row were older than one already seen. The store was probably restored from
// a backup: create a new Client.
var ErrFenced = errors.New("kent: many blocks in a row were older than one already seen; make a new client")

// errOlder is the result of an attempt that returned an older block.
var errOlder = errors.New("its block was older than one already seen")

// A ConfigError says that a setting of the client, or an argument, is invalid.
type ConfigError struct {
	What string
}

func (e *ConfigError) Error() string {
	return "kent: " + e.What
}

// An UnusableError says that the reply of a daemon is invalid. The daemon and the client may have different versions.
type UnusableError struct {
	What string
}

func (e *UnusableError) Error() string {
	return "kent: the daemon's reply is not usable: " + e.What
}

// A Failure is the error that a daemon returned, or the error of a broken connection.
type Failure struct {
	Code codes.Code
	// Message is the daemon's message.
	Message string
	// Reason is machine-readable, such as "SEALED". It is empty if the daemon gave no reason.
	Reason string
	// Metadata contains the details of the reason.
	Metadata map[string]string
	// Fields lists the invalid fields of the request.
	Fields []string
	// RetryAfter is the delay that the daemon asks for before a retry. HasRetry is false if it asks for none.
	RetryAfter time.Duration
	HasRetry   bool

	status *status.Status
}

func newFailure(err error) *Failure {
	answer := status.Convert(err)
	f := &Failure{Code: answer.Code(), Message: answer.Message(), status: answer}
	for _, detail := range answer.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			f.Reason, f.Metadata = detail.GetReason(), detail.GetMetadata()
		case *errdetails.RetryInfo:
			f.RetryAfter, f.HasRetry = max(0, detail.GetRetryDelay().AsDuration()), true
		case *errdetails.BadRequest:
			for _, violation := range detail.GetFieldViolations() {
				f.Fields = append(f.Fields, violation.GetField())
			}
		}
	}
	return f
}

func (f *Failure) Error() string {
	return fmt.Sprintf("%v: %s", f.Code, f.Message)
}

// GRPCStatus returns the complete status, with its details, for package google.golang.org/grpc/status.
func (f *Failure) GRPCStatus() *status.Status {
	return f.status
}

// isTransient returns whether another attempt can succeed. Retries are safe, because a lost reply only leaves a gap.
func (f *Failure) isTransient() bool {
	switch f.Code {
	case codes.Unavailable, codes.Unknown, codes.DeadlineExceeded, codes.Canceled, codes.Aborted:
		return true
	case codes.Internal:
		return f.Reason == "" // gRPC reports some broken connections this way; Kent's own errors have a reason.
	case codes.ResourceExhausted:
		// A delay means that a limit of the clock, the pace or the caller is temporary. The error of a full region has no
		// delay.
		return f.HasRetry
	default:
		return false
	}
}

// A RefusedError says that the daemon refused the request. The same request would be refused again until the cause is
// removed.
type RefusedError struct {
	*Failure
}

// Unwrap returns the Failure.
func (e *RefusedError) Unwrap() error {
	return e.Failure
}

func (e *RefusedError) Error() string {
	return "kent: refused: " + e.Failure.Error()
}

// Heir returns the source that continues the numbers of a closed region, such as "region:orders-eu". It returns "" for any other
// refusal.
func (e *RefusedError) Heir() string {
	if e.Reason != "CLOSED" {
		return ""
	}
	return e.Metadata["heir"]
}

// A LimitedError says that the caller has used up one of its limits, and that the wait, RetryAfter, is longer than the
// timeout.
type LimitedError struct {
	*Failure
}

// Unwrap returns the Failure.
func (e *LimitedError) Unwrap() error {
	return e.Failure
}

func (e *LimitedError) Error() string {
	return fmt.Sprintf("kent: limited for %v: %s", e.RetryAfter, e.Message)
}

// An UnavailableError says that no daemon granted identifiers in time. errors.Is finds context.DeadlineExceeded in it.
type UnavailableError struct {
	// Tried lists the endpoints that were tried.
	Tried []Tried
}

// Tried is an endpoint and its last error.
type Tried struct {
	Endpoint string
	Err      error
}

func (e *UnavailableError) Error() string {
	if len(e.Tried) == 0 {
		return "kent: no daemon granted identifiers in time (no reply yet)"
	}
	var each []string
	for _, tried := range e.Tried {
		each = append(each, tried.Endpoint+": "+tried.Err.Error())
	}
	return "kent: no daemon granted identifiers in time (" + strings.Join(each, "; ") + ")"
}

// Unwrap returns context.DeadlineExceeded.
func (e *UnavailableError) Unwrap() error {
	return context.DeadlineExceeded
}
