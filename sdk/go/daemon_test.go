package kent_test

// Tests the client against a real daemon. The variables KENTD and KENT name the programs of the daemon and of the
// command line. If they are not set, these tests are skipped.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kent.example/kent-go"
	"kent.example/kent-go/kentv1"

	"google.golang.org/grpc/codes"
)

// A daemon is a kentd process, with its data in a temporary directory.
type daemon struct {
	t       *testing.T
	data    string
	args    []string
	address string
	process *exec.Cmd
}

func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// start starts a daemon, which is stopped at the end of the test.
func start(t *testing.T, socket string, flags ...string) *daemon {
	t.Helper()
	if os.Getenv("KENTD") == "" || os.Getenv("KENT") == "" {
		t.Skip("KENTD and KENT are not set")
	}
	d := &daemon{t: t, data: t.TempDir(), address: freePort(t)}
	listen := d.address
	if socket != "" {
		listen += "," + socket
	}
	d.args = append([]string{
		"--data", filepath.Join(d.data, "d"), "--witness", filepath.Join(d.data, "w"), "--listen", listen, "--http", freePort(t),
	}, flags...)
	d.start()
	t.Cleanup(d.kill)
	return d
}

func (d *daemon) start() {
	log, err := os.OpenFile(filepath.Join(d.data, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		d.t.Error(err)
		return
	}
	defer func() { _ = log.Close() }()
	process := exec.Command(os.Getenv("KENTD"), d.args...)
	process.Stdout, process.Stderr = log, log
	if err := process.Start(); err != nil {
		d.t.Error(err)
		return
	}
	d.process = process
	for range 600 {
		if probe, err := net.Dial("tcp", d.address); err == nil {
			_ = probe.Close()
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	text, _ := os.ReadFile(log.Name())
	d.t.Errorf("the daemon does not listen: %s", text)
}

func (d *daemon) kill() {
	_ = d.process.Process.Kill()
	_ = d.process.Wait()
}

// kent runs the command kent.
func (d *daemon) kent(endpoint string, args ...string) string {
	d.t.Helper()
	var problem bytes.Buffer
	command := exec.Command(os.Getenv("KENT"), append([]string{"--endpoint", endpoint}, args...)...)
	command.Stderr = &problem
	text, err := command.Output()
	if err != nil {
		d.t.Fatalf("%v: %v: %s", args, err, problem.String())
	}
	return string(text)
}

func (d *daemon) region(name string) {
	d.t.Helper()
	d.kent(d.address, "region", "create", name, "--suffix", "40")
}

func (d *daemon) strict(name string) {
	d.t.Helper()
	d.region(name)
	d.kent(d.address, "region", "set", name, "--strict", "--yes")
}

func next[T any](t *testing.T, source *kent.Source[T]) T {
	t.Helper()
	id, err := source.Next(t.Context())
	if err != nil {
		t.Fatalf("%v: %v", source, err)
	}
	return id
}

func TestOkEachSourceHasItsType(t *testing.T) {
	t.Parallel()
	d := start(t, "")
	d.region("orders")
	d.kent(d.address, "space", "create", "wide", "--bits", "100")
	d.kent(d.address, "region", "create", "parts", "--space", "wide", "--prefix", "1011", "--suffix", "40")
	client := connect(t, d.address)
	for version, source := range map[int]*kent.Source[kent.UUID]{7: client.UUIDv7(), 6: client.UUIDv6()} {
		first, second := next(t, source), next(t, source)
		if first.Version() != version || first[8]>>6 != 2 || bytes.Compare(first[:], second[:]) >= 0 {
			t.Error(first, second)
		}
		if again, err := kent.ParseUUID(first.String()); err != nil || again != first {
			t.Error(again, err)
		}
	}
	first, second := next(t, client.Region("orders")), next(t, client.Region("orders"))
	if first.Compare(second) != -1 || second.Low != first.Low+1 || first.High != 0 {
		t.Error(first, second)
	}
	wide := next(t, client.Region("parts@wide"))
	if text := strings.Fields(d.kent(d.address, "classify", wide.String(), "--space", "wide")); wide.High>>32 != 0xb || !slices.Contains(text, "parts") {
		t.Error(wide, text)
	}
	if id := next(t, client.XID()); len(id) != 11 {
		t.Error(id)
	}
	var pound kent.UUID = next(t, client.Serial("GBP"))
	for name, is := range map[string]func(any) bool{
		"uid11-fullrand": func(id any) bool { text, ok := id.(string); return ok && len(text) == 11 },
		"serial:GBP":     func(id any) bool { other, ok := id.(kent.UUID); return ok && other != pound },
		"uuidv1":         func(id any) bool { id1, ok := id.(kent.UUID); return ok && id1.Version() == 1 },
		"region:orders":  func(id any) bool { n, ok := id.(kent.Number); return ok && n != first && n != second },
	} {
		if id := next(t, client.Source(name)); !is(id) {
			t.Errorf("%s: %T %v", name, id, id)
		}
	}
}

// Kills and restarts the daemon repeatedly, for KENT_SOAK_SECONDS.
func TestOkGoroutinesGoOnAfterEachKillAndNothingComesTwice(t *testing.T) {
	t.Parallel()
	seconds := 6
	if text := os.Getenv("KENT_SOAK_SECONDS"); text != "" {
		var err error
		if seconds, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	d := start(t, "")
	d.region("orders")
	client := connect(t, d.address, kent.WithBlockSize(50, 200), kent.WithRequestTimeout(time.Minute))
	var all sync.Map
	var group sync.WaitGroup
	var counts [8]atomic.Int64
	stop := make(chan struct{})
	work := func(count *atomic.Int64) error {
		record := func(ids ...any) error {
			for _, id := range ids {
				if _, twice := all.LoadOrStore(id, true); twice {
					return fmt.Errorf("%v came twice", id)
				}
				count.Add(1)
			}
			return nil
		}
		var last kent.UUID
		for {
			select {
			case <-stop:
				return nil
			case <-time.After(2 * time.Millisecond):
			}
			event, err := client.UUIDv7().Next(t.Context())
			if err != nil || bytes.Compare(last[:], event[:]) >= 0 {
				return fmt.Errorf("%v after %v: %w", event, last, err)
			}
			last = event
			orders, err := client.Region("orders").Take(t.Context(), 3)
			if err != nil {
				return err
			}
			xid, err := client.XID().Next(t.Context())
			if err != nil {
				return err
			}
			if err := record(event, orders[0], orders[1], orders[2], xid); err != nil {
				return err
			}
		}
	}
	for i := range counts {
		group.Go(func() {
			if err := work(&counts[i]); err != nil {
				t.Error(err)
			}
		})
	}
	kills := 0
	for began := time.Now(); time.Since(began) < time.Duration(seconds)*time.Second && !t.Failed(); {
		time.Sleep(500*time.Millisecond + rand.N(time.Second))
		d.kill()
		kills++
		time.Sleep(300 * time.Millisecond)
		d.start()
		var least [len(counts)]int64
		for i := range counts {
			least[i] = counts[i].Load() + 500 // More than all goroutines together can take from prefetched blocks.
		}
		for i := range counts {
			for counts[i].Load() < least[i] && !t.Failed() {
				time.Sleep(10 * time.Millisecond)
			}
		}
	}
	close(stop)
	group.Wait()
	sum, least := int64(0), counts[0].Load()
	for i := range counts {
		sum, least = sum+counts[i].Load(), min(least, counts[i].Load())
	}
	t.Logf("soak: %d s, %d kills, %d identifiers, at least %d by each goroutine", seconds, kills, sum, least)
}

func TestOkAnotherEndpointTakesOver(t *testing.T) {
	t.Parallel()
	d := start(t, "")
	client := connect(t, freePort(t), kent.WithFallback(d.address))
	if next(t, client.UUIDv7()).Version() != 7 {
		t.Error("not of version 7")
	}
}

func TestOkARequestIDIsGrantedOnce(t *testing.T) {
	t.Parallel()
	d := start(t, "")
	d.strict("invoices")
	fetch := func(id string) []kent.Number {
		numbers, err := connect(t, d.address).Region("invoices").Fetch(t.Context(), 3, id)
		if err != nil || len(numbers) != 3 {
			t.Fatal(numbers, err)
		}
		return numbers
	}
	first := fetch("r")
	if again, other := fetch("r"), fetch("s"); !slices.Equal(first, again) || slices.Equal(first, other) {
		t.Error(first, again, other)
	}
	d.kill()
	d.start()
	if again := fetch("r"); !slices.Equal(first, again) {
		t.Error(again)
	}
}

func TestErrRefusalsHaveTheirReason(t *testing.T) {
	t.Parallel()
	d := start(t, "")
	d.region("orders")
	d.kent(d.address, "region", "seal", "orders", "--yes")
	client := connect(t, d.address)
	for source, want := range map[string]struct {
		code   codes.Code
		reason string
		field  string
	}{
		"region:orders": {codes.FailedPrecondition, "SEALED", ""},
		"region:absent": {codes.NotFound, "NO_SUCH_REGION", ""},
		"what:ever":     {codes.InvalidArgument, "", "source"},
	} {
		_, err := client.Source(source).Next(t.Context())
		found := wantAs[*kent.RefusedError](t, err)
		if found.Code != want.code || want.reason != "" && found.Reason != want.reason || found.Message == "" ||
			want.field != "" && !slices.Contains(found.Fields, want.field) {
			t.Errorf("%s: %+v", source, found.Failure)
		}
	}
	_, err := client.Region("orders").Fetch(t.Context(), -1, "r")
	if found := wantAs[*kent.RefusedError](t, err); !slices.Contains(found.Fields, "count") {
		t.Errorf("%+v", found.Failure)
	}
}

func TestErrWithoutADaemonTheEndpointIsNamed(t *testing.T) {
	t.Parallel()
	address := freePort(t)
	client := connect(t, address, kent.WithRequestTimeout(300*time.Millisecond))
	_, err := client.UUIDv7().Next(t.Context())
	if found := wantAs[*kent.UnavailableError](t, err); found.Tried[0].Endpoint != address {
		t.Error(found)
	}
	if _, ok := client.UUIDv7().TryNext(); ok {
		t.Error("an identifier")
	}
}

func TestOkBlocksEndAndOldOnesAreDropped(t *testing.T) {
	t.Parallel()
	d := start(t, "")
	d.region("orders")
	client := connect(t, d.address, kent.WithBlockSize(3, 3), kent.WithMaxAge(500*time.Millisecond))
	events, orders := client.UUIDv7(), client.Region("orders")
	seen := map[any]bool{}
	for range 20 {
		seen[next(t, events)], seen[next(t, orders)] = true, true
	}
	for _, count := range []int{1, 2, 3, 4, 7} {
		ids, err := orders.Take(t.Context(), count)
		if err != nil || len(ids) != count {
			t.Error(ids, err)
		}
		for _, id := range ids {
			seen[id] = true
		}
	}
	if len(seen) != 57 {
		t.Error(len(seen))
	}
	next(t, orders)
	time.Sleep(700 * time.Millisecond)
	if _, ok := events.TryNext(); ok {
		t.Error("an old identifier")
	}
	if orders.InHand() > 0 {
		if _, ok := orders.TryNext(); !ok {
			t.Error("a number does not age")
		}
	}
}

func TestOkCallsInFlightEndWithTheClientOfARealDaemon(t *testing.T) {
	t.Parallel()
	d := start(t, "")
	client, err := kent.New(d.address, kent.WithBlockSize(1, 1))
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			for {
				if _, err := client.UUIDv7().Next(context.Background()); err != nil {
					if !errors.Is(err, kent.ErrClosed) {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	time.Sleep(100 * time.Millisecond)
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	group.Wait()
}

func TestOkTokensAndAUnixSocket(t *testing.T) {
	t.Parallel()
	directory, err := os.MkdirTemp("", "kent") // The path of a socket must be short.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(directory) })
	socket := "unix:" + filepath.Join(directory, "s")
	d := start(t, socket, "--auth", "required")
	// Over the Unix socket, the daemon's own user may do everything.
	var tokens []string
	for _, name := range []string{"a", "b"} {
		text := d.kent(socket, "token", "create", name, "--allow", "allocate:*")
		tokens = append(tokens, regexp.MustCompile(`kent_\S+`).FindString(text))
	}
	file := filepath.Join(directory, "token")
	write := func(token string) {
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(tokens[0])
	client := connect(t, d.address, kent.WithTokenFile(file), kent.WithBlockSize(1, 1))
	next(t, client.UUIDv7())
	write(tokens[1])
	d.kent(socket, "token", "revoke", strings.Split(tokens[0], "_")[1], "--yes")
	if _, err := client.UUIDv7().Take(t.Context(), 2); err != nil {
		t.Error(err)
	}
	next(t, connect(t, d.address, kent.WithToken(tokens[1])).UUIDv7())
	for _, option := range []kent.Option{kent.WithToken(tokens[0]), kent.WithFallback()} {
		_, err = connect(t, d.address, option).UUIDv7().Next(t.Context())
		if found := wantAs[*kent.RefusedError](t, err); found.Code != codes.Unauthenticated {
			t.Error(found)
		}
	}
	client = connect(t, socket)
	next(t, client.UUIDv7())
	if _, err := kentv1.NewAdminClient(client.Conn()).GetStatus(t.Context(), &kentv1.GetStatusRequest{}); err != nil {
		t.Error(err)
	}
}

func TestOkTLSAndClientCertificates(t *testing.T) {
	t.Parallel()
	directory := t.TempDir()
	path := func(name string) string { return filepath.Join(directory, name) }
	certificate := func(name string, more ...string) {
		command := exec.Command("openssl", append([]string{
			"req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
			"-keyout", path(name + ".key"), "-out", path(name + ".pem"), "-subj", "/CN=" + name,
		}, more...)...)
		if text, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
	}
	certificate("ca")
	signed := []string{"-CA", path("ca.pem"), "-CAkey", path("ca.key"), "-addext", "basicConstraints=CA:FALSE", "-addext"}
	certificate("server", append(signed, "subjectAltName=IP:127.0.0.1")...)
	certificate("client", append(signed, "subjectAltName=DNS:orders")...)
	certificate("other")
	server := []string{"--tls-cert", path("server.pem"), "--tls-key", path("server.key")}
	plain := start(t, "", server...)
	mutual := start(t, "", append(server, "--tls-client-ca", path("ca.pem"))...)

	ca, other := kent.WithCAFile(path("ca.pem")), kent.WithCAFile(path("other.pem"))
	identity := kent.WithCertificateFiles(path("client.pem"), path("client.key"))
	for _, scheme := range []string{"https://", ""} {
		next(t, connect(t, scheme+plain.address, ca).UUIDv7())
		next(t, connect(t, scheme+mutual.address, ca, identity).UUIDv7())
	}
	wrongName := "https://localhost:" + strings.Split(mutual.address, ":")[1]
	for i, row := range []struct {
		endpoint string
		options  []kent.Option
	}{
		{"https://" + mutual.address, []kent.Option{other, identity}},
		{"https://" + mutual.address, []kent.Option{ca}},
		{wrongName, []kent.Option{ca, identity}},
		{mutual.address, nil},
		{"https://" + plain.address, nil},
	} {
		client := connect(t, row.endpoint, append(row.options, kent.WithRequestTimeout(time.Second))...)
		_, err := client.UUIDv7().Next(t.Context())
		t.Log(i, wantAs[*kent.UnavailableError](t, err))
	}
}

func TestOkTheExamplesRun(t *testing.T) {
	d := start(t, "")
	d.strict("invoices")
	d.region("orders")
	d.region("r1")
	before := endpoint
	t.Cleanup(func() { endpoint = before })
	endpoint = d.address
	for _, example := range []func(){Example, ExampleSource_Take, ExampleSource_Fetch, ExampleRefusedError, ExampleClient_Conn} {
		example()
	}
	// The programs in the pages that KENT_PAGES names are also run.
	pages := append([]string{"README.md"}, filepath.SplitList(os.Getenv("KENT_PAGES"))...)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		programs := regexp.MustCompile("(?s)```go\n(package main.*?)```").FindAllSubmatch(text, -1)
		if page == "README.md" && len(programs) == 0 {
			t.Error("no programs")
		}
		for i, program := range programs {
			directory, err := os.MkdirTemp(".", "example")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(directory) })
			source := bytes.ReplaceAll(program[1], []byte("127.0.0.1:7600"), []byte(d.address))
			if err := os.WriteFile(filepath.Join(directory, "main.go"), source, 0o600); err != nil {
				t.Fatal(err)
			}
			output, err := exec.Command("go", "run", "./"+directory).CombinedOutput()
			if err != nil {
				t.Errorf("%s, program %d: %v: %s", page, i+1, err, output)
			}
			fmt.Printf("%s", output)
		}
	}
}
