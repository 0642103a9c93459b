package kent_test

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"kent.example/kent-go"
	"kent.example/kent-go/kentv1"
)

// The daemon that the examples use.
var endpoint = cmp.Or(os.Getenv("KENT_ENDPOINT"), "127.0.0.1:7600")

func Example() {
	ctx := context.Background()
	client, err := kent.New(endpoint) // one per process
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	events := client.UUIDv7() // goroutines share this handle
	id, err := events.Next(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("one event:", id)
	if id, ok := events.TryNext(); ok {
		fmt.Println("one more, without waiting:", id)
	}
}

func ExampleSource_Take() {
	client, err := kent.New(endpoint, kent.WithRequestTimeout(5*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	ids, err := client.XID().Take(context.Background(), 25_000)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(ids), "together, from", ids[0])
}

func ExampleSource_Fetch() {
	client, err := kent.New(endpoint)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	// Store the request ID with the work that needs the numbers: after a crash, the same ID returns the same numbers.
	request, err := client.UUIDv7().Next(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	numbers, err := client.Region("invoices").Fetch(context.Background(), 3, request.String())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("invoices:", numbers)
}

func ExampleRefusedError() {
	client, err := kent.New(endpoint)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	_, err = client.Region("absent").Next(context.Background())
	var refused *kent.RefusedError
	var limited *kent.LimitedError
	var unavailable *kent.UnavailableError
	switch {
	case errors.As(err, &refused):
		fmt.Println("an operator has to act:", refused.Reason)
	case errors.As(err, &limited):
		fmt.Println("again after", limited.RetryAfter)
	case errors.As(err, &unavailable):
		fmt.Println("no daemon answers:", unavailable.Tried)
	}
}

func ExampleClient_Conn() {
	client, err := kent.New(endpoint)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	codec := kentv1.NewCodecClient(client.Conn())
	reply, err := codec.Inspect(context.Background(), &kentv1.InspectRequest{Texts: []string{"01a1fb46-21bf-7000-8000-3cf49345d9a8"}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(reply.GetResults()), "result")
}

// UUIDs and numbers can be arguments and results of database/sql.
func Example_database() {
	ctx := context.Background()
	client, err := kent.New(endpoint)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	db, err := sql.Open("pgx", "postgres://localhost/shop") // CREATE TABLE orders (number numeric PRIMARY KEY, event uuid)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	number, err := client.Region("orders").Next(ctx)
	if err != nil {
		log.Fatal(err)
	}
	event, err := client.UUIDv7().Next(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := db.ExecContext(ctx, "INSERT INTO orders (number, event) VALUES ($1, $2)", number, event); err != nil {
		log.Fatal(err)
	}
	var stored kent.UUID
	if err := db.QueryRowContext(ctx, "SELECT event FROM orders WHERE number = $1", number).Scan(&stored); err != nil {
		log.Fatal(err)
	}
	fmt.Println(stored == event)
}
