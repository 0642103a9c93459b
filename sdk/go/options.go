package kent

// The settings of a client, which are checked when the client is created.

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
)

// An Option is a setting of a client.
type Option func(*settings)

type settings struct {
	endpoints      []string
	token          string
	tokenFile      string
	tokens         int
	plainToken     bool
	tls            *tls.Config
	caFile         string
	certFile       string
	keyFile        string
	hasCert        bool
	attemptTimeout time.Duration
	requestTimeout time.Duration
	blockSize      int
	blockSizeMax   int
	lowWater       float64
	maxAge         time.Duration
	followHeirs    bool
	dial           []grpc.DialOption
}

func defaults() *settings {
	return &settings{
		attemptTimeout: 2 * time.Second,
		requestTimeout: 10 * time.Second,
		blockSize:      1000,
		blockSizeMax:   100_000,
		lowWater:       0.5,
		maxAge:         10 * time.Second,
	}
}

// WithFallback adds endpoints that are used while the first one fails. The client returns to the first one after 30
// seconds.
func WithFallback(endpoints ...string) Option {
	return func(s *settings) { s.endpoints = append(s.endpoints, endpoints...) }
}

// WithToken sends the caller's token with each call.
func WithToken(token string) Option {
	return func(s *settings) { s.token = token; s.tokens++ }
}

// WithTokenFile sends the token from a file with each call. The client reads the file again when it changes.
func WithTokenFile(path string) Option {
	return func(s *settings) { s.tokenFile = path; s.tokens++ }
}

// WithPlainToken allows the client to send its token to other machines without TLS.
func WithPlainToken() Option {
	return func(s *settings) { s.plainToken = true }
}

// WithCAFile trusts daemons whose certificates are signed by the CAs in a PEM file, instead of by the system's CAs.
// Endpoints without a scheme then use TLS.
func WithCAFile(path string) Option {
	return func(s *settings) { s.caFile = path }
}

// WithCertificateFiles sets the PEM files of the client's certificate and private key, for daemons that require one.
// The client reads the files for each connection, so the certificate can be renewed. Endpoints without a scheme then use TLS.
func WithCertificateFiles(certificate, key string) Option {
	return func(s *settings) { s.certFile, s.keyFile, s.hasCert = certificate, key, true }
}

// WithTLSConfig uses the program's own TLS configuration. WithCAFile and WithCertificateFiles add to it.
// Endpoints without a scheme then use TLS.
func WithTLSConfig(config *tls.Config) Option {
	return func(s *settings) { s.tls = config }
}

// WithAttemptTimeout limits one attempt of a request at one endpoint. Default: 2 seconds.
func WithAttemptTimeout(timeout time.Duration) Option {
	return func(s *settings) { s.attemptTimeout = timeout }
}

// WithRequestTimeout limits a request, including all its attempts, if the context has no deadline. Default: 10 seconds.
func WithRequestTimeout(timeout time.Duration) Option {
	return func(s *settings) { s.requestTimeout = timeout }
}

// WithBlockSize sets the size of a source's first block and the maximum size. The size adapts so that a block lasts
// about a second. Defaults: 1000 and 100,000.
func WithBlockSize(first, most int) Option {
	return func(s *settings) { s.blockSize, s.blockSizeMax = first, most }
}

// WithLowWater sets the share of a block that is left when the next block is fetched. Default: 0.5.
func WithLowWater(share float64) Option {
	return func(s *settings) { s.lowWater = share }
}

// WithMaxAge sets the age at which identifiers that contain a timestamp are dropped. Default: 10 seconds.
func WithMaxAge(age time.Duration) Option {
	return func(s *settings) { s.maxAge = age }
}

// WithFollowHeirs lets a source continue with the heir of a closed region.
func WithFollowHeirs() Option {
	return func(s *settings) { s.followHeirs = true }
}

// WithDialOptions passes options to gRPC, such as a stats handler for tracing or a dialer.
func WithDialOptions(options ...grpc.DialOption) Option {
	return func(s *settings) { s.dial = append(s.dial, options...) }
}

// check returns an error for the first invalid setting.
func (s *settings) check() error {
	for _, row := range []struct {
		name, allowed string
		holds         bool
	}{
		{"the first block size", "1 to the largest one", 1 <= s.blockSize && s.blockSize <= s.blockSizeMax},
		{"the largest block size", fmt.Sprintf("at most %d", packedMax), s.blockSizeMax <= packedMax},
		{"the low water", "0 to 1", 0 <= s.lowWater && s.lowWater <= 1},
		{"the largest age", "more than 0", s.maxAge > 0},
		{"the attempt timeout", "more than 0", s.attemptTimeout > 0},
		{"the request timeout", "more than 0", s.requestTimeout > 0},
		{"the token", "given once", s.tokens <= 1},
		{"the token", "left out or not empty", s.tokens == 0 || s.token != "" || s.tokenFile != ""},
	} {
		if !row.holds {
			return &ConfigError{row.name + " must be " + row.allowed}
		}
	}
	return nil
}

// parse returns the endpoints, and whether any uses TLS.
func (s *settings) parse() (all []endpoint, secure bool, err error) {
	plain := false
	given := s.tls != nil || s.caFile != "" || s.hasCert
	for _, text := range s.endpoints {
		one, err := parseEndpoint(text, given)
		if err != nil {
			return nil, false, err
		}
		if s.tokens > 0 && !s.plainToken && !one.isPrivate() {
			return nil, false, &ConfigError{fmt.Sprintf("endpoint %s is on another machine and without TLS, so its network could read "+
				"the token: use https://, or WithPlainToken", one.address)}
		}
		secure = secure || one.tls
		plain = plain || !one.tls && !one.isUnix()
		all = append(all, one)
	}
	if secure && plain {
		return nil, false, &ConfigError{"the endpoints must be all with https:// or all without"}
	}
	if !secure && given {
		return nil, false, &ConfigError{"TLS settings need https:// endpoints"}
	}
	return all, secure, nil
}

// tlsConfig returns the TLS configuration, with the CAs to trust and the client's certificate.
func (s *settings) tlsConfig() (*tls.Config, error) {
	config := s.tls.Clone()
	if config == nil {
		config = &tls.Config{}
	}
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	if s.caFile != "" {
		data, err := os.ReadFile(s.caFile)
		if err != nil {
			return nil, &ConfigError{"CA file: " + err.Error()}
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(data) {
			return nil, &ConfigError{"CA file: no PEM certificate in " + s.caFile}
		}
	}
	if s.hasCert {
		load := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(s.certFile, s.keyFile)
			return &pair, err
		}
		if _, err := load(nil); err != nil {
			return nil, &ConfigError{"certificate files: " + err.Error()}
		}
		config.GetClientCertificate = load
	}
	return config, nil
}
