package main

// The test runs the service as a process, with a real daemon. The variables KENTD and KENT name Kent's programs. If
// they are not set, the test is skipped.

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"kent.example/kent-go"
)

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// start starts a process that listens on an address. The process ends with the test.
func start(t *testing.T, address string, command *exec.Cmd) *exec.Cmd {
	t.Helper()
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	for range 600 {
		if probe, err := net.Dial("tcp", address); err == nil {
			_ = probe.Close()
			return command
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("%v does not listen", command)
	return nil
}

func TestOkTheServiceNumbersOrdersAndEvents(t *testing.T) {
	kentd, cli := os.Getenv("KENTD"), os.Getenv("KENT")
	if kentd == "" || cli == "" {
		t.Skip("KENTD and KENT are not set")
	}
	directory, endpoint, address := t.TempDir(), freeAddress(t), freeAddress(t)
	daemon := start(t, endpoint, exec.Command(kentd, "--log", "error", "--data", filepath.Join(directory, "data"),
		"--witness", filepath.Join(directory, "witness"), "--listen", endpoint, "--http", freeAddress(t)))
	program := filepath.Join(directory, "orders")
	if text, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	service := exec.Command(program)
	_, port, _ := net.SplitHostPort(address)
	service.Env = append(os.Environ(), "PORT="+port, "KENT_ENDPOINT="+endpoint)
	start(t, address, service)

	call := func(method, path string, status int) map[string]string {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, "http://"+address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != status {
			t.Fatalf("%s: %d, %v: %s", path, response.StatusCode, err, text)
		}
		if path == "/healthz" {
			return map[string]string{"text": string(text)}
		}
		var body map[string]string
		if err := json.Unmarshal(text, &body); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return body
	}
	if body := call("POST", "/orders", 503); body["error"] == "" {
		t.Error(body)
	}
	if text, err := exec.Command(cli, "--endpoint", endpoint, "region", "create", "orders", "--suffix", "40").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	first, second := call("POST", "/orders", 200), call("POST", "/orders", 200)
	for _, body := range []map[string]string{first, second, call("POST", "/events", 200)} {
		if id, err := kent.ParseUUID(body["event"]); err != nil || id.Version() != 7 {
			t.Error(body, err)
		}
	}
	before, err := strconv.Atoi(first["order"])
	if err != nil || second["order"] != strconv.Itoa(before+1) || first["event"] == second["event"] {
		t.Error(first, second, err)
	}
	if body := call("GET", "/healthz", 200); body["text"] != "ok" {
		t.Error(body)
	}
	if err := daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for range 2000 { // Use up the identifiers that the client holds.
		response, err := http.Post("http://"+address+"/events", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode == 503 {
			break
		}
	}
	if body := call("POST", "/events", 503); body["error"] == "" {
		t.Error(body)
	}
	if err := service.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := service.Wait(); err != nil {
		t.Error(err)
	}
}
