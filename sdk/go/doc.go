// Package kent is a client of Kent, the service that allocates unique identifiers. It keeps a block of identifiers in
// memory and prefetches the next block, so that most calls to Next do not wait.
//
//	client, err := kent.New("127.0.0.1:7600") // one per process
//	if err != nil {
//		return err
//	}
//	defer client.Close()
//	events := client.UUIDv7()
//	id, err := events.Next(ctx)
//
// A Client and its sources are safe for any number of goroutines.
//
// # Time
//
// The deadline of a context limits a call, including all its attempts. Without a deadline, the client's request timeout
// is the limit. The client returns a prefetched identifier without checking the context.
//
// # Errors
//
// Use errors.As with *[RefusedError] (a retry would not help), *[LimitedError] (wait for RetryAfter), *[UnavailableError] (no daemon
// granted in time), *[UnusableError] and *[ConfigError], and errors.Is with [ErrClosed], [ErrFenced] and context.Canceled.
package kent
