package kent

// The token that is sent with each call.

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"
)

// The longest time until a changed file is detected.
const lookEvery = time.Second

var tokenForm = regexp.MustCompile(`^kent_[A-Za-z0-9_-]{1,995}$`)

// A token authenticates the caller. A token from a file is read again when the file changes. It implements
// credentials.PerRPCCredentials.
type token struct {
	file string

	mu     sync.Mutex
	header string // empty without a token
	looked time.Time
}

func newToken(text, file string) (*token, error) {
	t := &token{file: file, looked: time.Now()}
	if file != "" {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, &ConfigError{"token file: " + err.Error()}
		}
		text = string(data)
	} else if text == "" {
		return t, nil
	}
	header, err := bearer(text)
	t.header = header
	return t, err
}

func bearer(text string) (string, error) {
	text = strings.TrimSpace(text)
	if !tokenForm.MatchString(text) {
		return "", &ConfigError{"a token is kent_ID_SECRET, as `kent token create` prints it; a token file contains nothing else"}
	}
	return "Bearer " + text, nil
}

// get returns the header for the next call.
func (t *token) get() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.looked) >= lookEvery {
		t.read()
	}
	return t.header
}

// refresh reads the file immediately, and returns the header.
func (t *token) refresh() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.read()
	return t.header
}

// read reads the file. If the file has no token, it keeps the previous one, because another process may be replacing
// the file.
func (t *token) read() {
	t.looked = time.Now()
	if t.file == "" {
		return
	}
	data, err := os.ReadFile(t.file)
	header, invalid := bearer(string(data))
	if errors.Join(err, invalid) == nil {
		t.header = header
	}
}

// GetRequestMetadata adds the token to a call.
func (t *token) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	header := t.get()
	if header == "" {
		return nil, nil
	}
	return map[string]string{"authorization": header}, nil
}

// RequireTransportSecurity returns false, because the client's settings already prevent sending a token without TLS by
// mistake.
func (t *token) RequireTransportSecurity() bool {
	return false
}
