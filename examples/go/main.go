// Command orders is an example: an HTTP service that numbers orders and events with Kent.
//
//	kent region create orders --suffix 40
//	PORT=8080 KENT_ENDPOINT=127.0.0.1:7600 go run .
//	curl -X POST http://127.0.0.1:8080/orders
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"kent.example/kent-go"
)

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

// run serves until the context is canceled, and then lets the requests in flight finish.
func run(ctx context.Context) error {
	client, err := kent.New(cmp.Or(os.Getenv("KENT_ENDPOINT"), "127.0.0.1:7600"), kent.WithRequestTimeout(3*time.Second))
	if err != nil {
		return err
	}
	defer client.Close()

	server := http.Server{
		Addr:              "127.0.0.1:" + cmp.Or(os.Getenv("PORT"), "8080"),
		Handler:           routes(client.Region("orders"), client.UUIDv7()),
		ReadHeaderTimeout: 5 * time.Second,
	}
	ended := make(chan error, 1)
	go func() { ended <- server.ListenAndServe() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return server.Shutdown(grace)
}

// An orderReply is the answer to POST /orders. The number is encoded as a string, because JavaScript would round a
// large number.
type orderReply struct {
	Order kent.Number `json:"order"`
	Event kent.UUID   `json:"event"`
}

type eventReply struct {
	Event kent.UUID `json:"event"`
}

func routes(orders *kent.Source[kent.Number], events *kent.Source[kent.UUID]) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) {
		order, err := orders.Next(r.Context())
		if err != nil {
			unavailable(w, err)
			return
		}
		event, err := events.Next(r.Context())
		if err != nil {
			unavailable(w, err) // The order's number becomes a gap.
			return
		}
		reply(w, http.StatusOK, orderReply{order, event})
	})
	mux.HandleFunc("POST /events", func(w http.ResponseWriter, r *http.Request) {
		event, err := events.Next(r.Context())
		if err != nil {
			unavailable(w, err)
			return
		}
		reply(w, http.StatusOK, eventReply{event})
	})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "ok")
	})
	return mux
}

// unavailable answers that Kent refused the request or is unreachable.
func unavailable(w http.ResponseWriter, err error) {
	var limited *kent.LimitedError
	if errors.As(err, &limited) {
		w.Header().Set("Retry-After", fmt.Sprint(int(limited.RetryAfter.Seconds())+1))
	}
	reply(w, http.StatusServiceUnavailable, map[string]string{"error": err.Error()})
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		log.Print(err) // The caller has disconnected.
	}
}
