// Command bench compares the time of Next with that of a version 7 UUID generated in process, in interleaved rounds of
// a million calls. KENT_ENDPOINT names the daemon. The optional arguments are the number of rounds, and the number of
// calls in a round.
//
// It prints one line per round: {"kent_ns": 80.1, "own_ns": 190.2, "calls": 1000000}. It is a separate module, so that
// the client does not depend on google/uuid.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"kent.example/kent-go"

	"github.com/google/uuid"
)

func main() {
	log.SetFlags(0)
	rounds, calls := argument(1, 5), argument(2, 1_000_000)
	client, err := kent.New(cmp.Or(os.Getenv("KENT_ENDPOINT"), "127.0.0.1:7600"))
	if err != nil {
		log.Fatal(err)
	}
	source := client.UUIDv7()
	ctx := context.Background()
	for range rounds {
		kent := measure(calls, func() error { _, err := source.Next(ctx); return err })
		own := measure(calls, func() error { _, err := uuid.NewV7(); return err })
		fmt.Printf("{\"kent_ns\": %.1f, \"own_ns\": %.1f, \"calls\": %d}\n", kent, own, calls)
	}
	if err := client.Close(); err != nil {
		log.Fatal(err)
	}
}

// argument returns an argument of the program, or a default.
func argument(index, otherwise int) int {
	if len(os.Args) <= index {
		return otherwise
	}
	number, err := strconv.Atoi(os.Args[index])
	if err != nil {
		log.Fatal(err)
	}
	return number
}

// measure returns the nanoseconds of one call.
func measure(calls int, call func() error) float64 {
	began := time.Now()
	for range calls {
		if err := call(); err != nil {
			log.Fatal(err)
		}
	}
	return float64(time.Since(began).Nanoseconds()) / float64(calls)
}
