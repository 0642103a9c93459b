package kent

// The endpoints of a client, and the choice between them.

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// After this time, the client tries its first endpoint again.
const returnAfter = 30 * time.Second

var hostPort = regexp.MustCompile(`^(\[[0-9a-fA-F:.]+\]|[^\s:/\[\]]+):(\d{1,5})$`)

// An endpoint is the address of a daemon.
type endpoint struct {
	// HOST:PORT or unix:/PATH.
	address string
	tls     bool
}

// parseEndpoint parses an endpoint. An endpoint without a scheme uses TLS if the client has TLS settings.
func parseEndpoint(text string, secure bool) (endpoint, error) {
	if strings.HasPrefix(text, "unix:/") {
		return endpoint{address: text}, nil
	}
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		scheme, rest = "http", text
		if secure {
			scheme = "https"
		}
	}
	rest = strings.TrimRight(rest, "/")
	match := hostPort.FindStringSubmatch(rest)
	valid := match != nil && (scheme == "http" || scheme == "https")
	if valid {
		port, _ := strconv.Atoi(match[2])
		valid = 1 <= port && port <= 65535
	}
	if !valid {
		return endpoint{}, &ConfigError{fmt.Sprintf(
			"endpoint %q: it must be HOST:PORT, https://HOST:PORT or unix:/PATH, such as 127.0.0.1:7600", text)}
	}
	return endpoint{address: rest, tls: scheme == "https"}, nil
}

func (e endpoint) isUnix() bool {
	return strings.HasPrefix(e.address, "unix:")
}

// target returns the address that gRPC dials.
func (e endpoint) target() string {
	if e.isUnix() {
		return e.address
	}
	return "dns:///" + e.address
}

// isPrivate returns whether the endpoint is on this machine or uses TLS. Otherwise, a token could be read on the
// network.
func (e endpoint) isPrivate() bool {
	if e.tls || e.isUnix() {
		return true
	}
	host := strings.Trim(e.address[:strings.LastIndexByte(e.address, ':')], "[]")
	if host == "localhost" {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}

// A rotation selects the endpoint in use. The first endpoint is preferred.
type rotation struct {
	count int

	mu        sync.Mutex
	current   int
	leftFirst time.Time
}

// use returns the index of the endpoint for the next attempt.
func (r *rotation) use() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current != 0 && time.Since(r.leftFirst) >= returnAfter {
		r.current = 0
	}
	return r.current
}

// leave switches to the next endpoint, unless another call has already done so.
func (r *rotation) leave(index int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current != index {
		return
	}
	if index == 0 {
		r.leftFirst = time.Now()
	}
	r.current = (index + 1) % r.count
}
