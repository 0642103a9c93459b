// Command conformance connects the client to the conformance kit: it reads commands, one JSON object per line, and
// answers them.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"kent.example/kent-go"

	"google.golang.org/genproto/googleapis/rpc/code"
)

// A command of the kit. Omitted members are nil.
type command struct {
	ID int64  `json:"id"`
	Do string `json:"do"`

	Endpoints        []string `json:"endpoints"`
	AttemptTimeoutMS *int64   `json:"attempt_timeout_ms"`
	RequestTimeoutMS *int64   `json:"request_timeout_ms"`
	BlockSize        *int     `json:"block_size"`
	BlockSizeMax     *int     `json:"block_size_max"`
	LowWater         *float64 `json:"low_water"`
	MaxAgeMS         *int64   `json:"max_age_ms"`
	FollowHeirs      bool     `json:"follow_heirs"`
	CA               string   `json:"ca"`
	Cert             string   `json:"cert"`
	Key              string   `json:"key"`
	Token            string   `json:"token"`
	TokenFile        string   `json:"token_file"`

	Source    string `json:"source"`
	Count     *int   `json:"count"`
	Threads   *int   `json:"threads"`
	TimeoutMS *int64 `json:"timeout_ms"`
	RequestID string `json:"request_id"`
}

// An answer to a command.
type answer struct {
	ID    int64     `json:"id"`
	IDs   *[]string `json:"ids,omitempty"`
	Error *problem  `json:"error,omitempty"`
}

// A problem is an error in the kit's format.
type problem struct {
	Kind         string            `json:"kind"`
	Code         string            `json:"code,omitempty"`
	Reason       string            `json:"reason,omitempty"`
	Metadata     map[string]string `json:"metadata,omitempty"`
	Fields       []string          `json:"fields,omitempty"`
	RetryAfterMS *int64            `json:"retry_after_ms,omitempty"`
	Message      string            `json:"message"`
}

func main() {
	log.SetFlags(0)
	output := json.NewEncoder(os.Stdout)
	output.SetEscapeHTML(false)
	var writing sync.Mutex
	write := func(line any) {
		writing.Lock()
		defer writing.Unlock()
		if err := output.Encode(line); err != nil {
			log.Fatal(err)
		}
	}
	can := []string{"try_next", "take", "fetch", "threads", "xid", "tls", "token_file", "heirs"}
	write(map[string]any{"hello": map[string]any{"language": "go", "can": can}})
	var a adapter
	var running sync.WaitGroup
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			log.Fatalf("%s: %v", lines.Bytes(), err)
		}
		if c.Do == "open" {
			write(a.answer(c)) // Wait for the answer, because later commands need the client. The command makes no calls.
			continue
		}
		running.Go(func() { write(a.answer(c)) })
	}
	if err := lines.Err(); err != nil {
		log.Fatal(err)
	}
	// Let commands that are about to end print their answers.
	ended := make(chan struct{})
	go func() { running.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(time.Second):
	}
}

// An adapter holds the client under test.
type adapter struct {
	mu     sync.Mutex
	client *kent.Client
}

func (a *adapter) answer(c command) answer {
	var ids []string
	var err error
	switch c.Do {
	case "open":
		err = a.open(c)
	case "close":
		if client := a.current(); client != nil {
			err = client.Close()
		}
	default:
		client := a.current()
		if client == nil {
			err = &kent.ConfigError{What: "there is no open client"}
		} else {
			ids, err = identifiers(client.Source(c.Source), c)
		}
		if ids == nil {
			ids = []string{}
		}
	}
	result := answer{ID: c.ID}
	if ids != nil {
		result.IDs = &ids
	}
	if err != nil {
		result.Error = explain(err)
	}
	return result
}

func (a *adapter) current() *kent.Client {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.client
}

func (a *adapter) open(c command) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(c.Endpoints) == 0 {
		return &kent.ConfigError{What: "there are no endpoints"}
	}
	client, err := kent.New(c.Endpoints[0], c.options()...)
	if err == nil {
		a.client = client
	}
	return err
}

func (c command) options() []kent.Option {
	options := []kent.Option{kent.WithFallback(c.Endpoints[1:]...)}
	for _, time := range []struct {
		milliseconds *int64
		option       func(time.Duration) kent.Option
	}{
		{c.AttemptTimeoutMS, kent.WithAttemptTimeout}, {c.RequestTimeoutMS, kent.WithRequestTimeout}, {c.MaxAgeMS, kent.WithMaxAge},
	} {
		if time.milliseconds != nil {
			options = append(options, time.option(milliseconds(*time.milliseconds)))
		}
	}
	if c.BlockSize != nil || c.BlockSizeMax != nil {
		options = append(options, kent.WithBlockSize(or(c.BlockSize, 1000), or(c.BlockSizeMax, 100_000)))
	}
	if c.LowWater != nil {
		options = append(options, kent.WithLowWater(*c.LowWater))
	}
	if c.FollowHeirs {
		options = append(options, kent.WithFollowHeirs())
	}
	if c.CA != "" {
		options = append(options, kent.WithCAFile(c.CA))
	}
	if c.Cert != "" || c.Key != "" {
		options = append(options, kent.WithCertificateFiles(c.Cert, c.Key))
	}
	if c.Token != "" {
		options = append(options, kent.WithToken(c.Token))
	}
	if c.TokenFile != "" {
		options = append(options, kent.WithTokenFile(c.TokenFile))
	}
	return options
}

func milliseconds(n int64) time.Duration {
	return time.Duration(n) * time.Millisecond
}

func or(given *int, otherwise int) int {
	if given == nil {
		return otherwise
	}
	return *given
}

// identifiers runs a command that returns identifiers.
func identifiers(source *kent.Source[any], c command) ([]string, error) {
	limited := func() (context.Context, context.CancelFunc) {
		if c.TimeoutMS == nil {
			return context.Background(), func() {}
		}
		return context.WithTimeout(context.Background(), milliseconds(*c.TimeoutMS))
	}
	ctx, cancel := limited()
	defer cancel()
	count := or(c.Count, 1)
	switch c.Do {
	case "next":
		return each(or(c.Threads, 1), func() (ids []string, err error) {
			for range count {
				ctx, cancel := limited()
				id, err := source.Next(ctx)
				cancel()
				if err != nil {
					return ids, err
				}
				ids = append(ids, fmt.Sprint(id))
			}
			return ids, nil
		})
	case "try_next":
		if id, ok := source.TryNext(); ok {
			return []string{fmt.Sprint(id)}, nil
		}
		return nil, nil
	case "take":
		ids, err := source.Take(ctx, count)
		return texts(ids), err
	case "fetch":
		ids, err := source.Fetch(ctx, count, c.RequestID)
		return texts(ids), err
	default:
		return nil, fmt.Errorf("cannot do %q", c.Do)
	}
}

// each runs a function in several goroutines. It returns the identifiers from all of them, and the first error.
func each(threads int, take func() ([]string, error)) (all []string, first error) {
	var mu sync.Mutex
	var group sync.WaitGroup
	for range threads {
		group.Go(func() {
			ids, err := take()
			mu.Lock()
			defer mu.Unlock()
			all = append(all, ids...)
			if first == nil {
				first = err
			}
		})
	}
	group.Wait()
	return all, first
}

func texts(ids []any) []string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = fmt.Sprint(id)
	}
	return texts
}

func explain(err error) *problem {
	p := &problem{Kind: "other", Message: err.Error()}
	var refused *kent.RefusedError
	var limited *kent.LimitedError
	var unavailable *kent.UnavailableError
	var unusable *kent.UnusableError
	var config *kent.ConfigError
	switch {
	case errors.As(err, &refused):
		p.Kind = "refused"
	case errors.As(err, &limited):
		p.Kind = "limited"
	case errors.As(err, &unavailable):
		p.Kind = "unavailable"
	case errors.As(err, &unusable):
		p.Kind = "unusable"
	case errors.As(err, &config):
		p.Kind = "config"
	case errors.Is(err, kent.ErrFenced):
		p.Kind = "fenced"
	case errors.Is(err, kent.ErrClosed):
		p.Kind = "closed"
	}
	var failure *kent.Failure
	if errors.As(err, &failure) {
		p.Code = code.Code(failure.Code).String()
		p.Reason, p.Metadata, p.Fields = failure.Reason, failure.Metadata, failure.Fields
		if failure.HasRetry {
			after := failure.RetryAfter.Milliseconds()
			p.RetryAfterMS = &after
		}
	}
	return p
}
