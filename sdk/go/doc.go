// Package kent is a client of Kent, the service that allocates unique identifiers. It keeps a block of identifiers in memory and
// fetches the next one ahead, so that most calls of Next do not wait.
//
//	client, err := kent.New("127.0.0.1:7600") // one a process
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
// A context with a deadline bounds a call with all its attempts; without a deadline the client's request timeout does. An identifier
// in hand is returned without a look at the context.
//
// # Errors
//
// Use errors.As with *[RefusedError] (a retry would not help), *[LimitedError] (wait for RetryAfter), *[UnavailableError] (no daemon
// granted in time), *[UnusableError] and *[ConfigError], and errors.Is with [ErrClosed], [ErrFenced] and context.Canceled.
package kent
