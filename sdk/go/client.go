package kent

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// A Client has connections to the daemons, and one handle for each source. Use one Client per process.
type Client struct {
	settings  *settings
	endpoints []endpoint
	rotation  rotation
	conns     []*grpc.ClientConn
	token     *token
	fences    fences
	// Canceled when the client is closed.
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	sources map[sourceKey]interface{ drop() }
}

// A sourceKey identifies a handle: it has the source's name and, as a nil pointer, the type of the source's
// identifiers.
type sourceKey struct {
	name string
	of   any
}

// New creates a client. The endpoint is HOST:PORT, https://HOST:PORT or unix:/PATH. HOST:PORT uses TLS if an option sets
// a CA, a certificate or a TLS configuration. New does not connect: the first call does. New returns a *[ConfigError] if
// a setting is invalid.
func New(endpoint string, options ...Option) (*Client, error) {
	set := defaults()
	set.endpoints = []string{endpoint}
	for _, option := range options {
		option(set)
	}
	if err := set.check(); err != nil {
		return nil, err
	}
	endpoints, secure, err := set.parse()
	if err != nil {
		return nil, err
	}
	sent, err := newToken(set.token, set.tokenFile)
	if err != nil {
		return nil, err
	}
	encrypted := insecure.NewCredentials()
	if secure {
		config, err := set.tlsConfig()
		if err != nil {
			return nil, err
		}
		encrypted = credentials.NewTLS(config)
	}
	c := &Client{
		settings: set, endpoints: endpoints, rotation: rotation{count: len(endpoints)}, token: sent,
		sources: map[sourceKey]interface{ drop() }{},
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	for _, one := range endpoints {
		transport := insecure.NewCredentials()
		if one.tls {
			transport = encrypted
		}
		conn, err := grpc.NewClient(one.target(), c.dialOptions(transport)...)
		if err != nil {
			return nil, errors.Join(&ConfigError{"endpoint " + one.address + ": " + err.Error()}, c.Close())
		}
		c.conns = append(c.conns, conn)
	}
	return c, nil
}

func (c *Client) dialOptions(transport credentials.TransportCredentials) []grpc.DialOption {
	return append([]grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithPerRPCCredentials(c.token),
		grpc.WithUserAgent("kent-go"),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64 << 20)),
		// With gRPC's defaults, the pause before a reconnect grows to two minutes.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 500 * time.Millisecond},
			MinConnectTimeout: 2 * time.Second,
		}),
		// Drop connections to machines that no longer answer.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 5 * time.Second}),
	}, c.settings.dial...)
}

// UUIDv7 returns the source of version 7 UUIDs, which are ordered by time.
func (c *Client) UUIDv7() *Source[UUID] {
	return sourceOf(c, "uuidv7", uuidOfSlot)
}

// UUIDv6 returns the source of version 6 UUIDs, which are version 1 UUIDs with the timestamp first.
func (c *Client) UUIDv6() *Source[UUID] {
	return sourceOf(c, "uuidv6", uuidOfSlot)
}

// XID returns the source of xids, which have 11 characters and are ordered by time.
func (c *Client) XID() *Source[string] {
	return sourceOf(c, "xid", textOfSlot)
}

// Serial returns the source of EXTUUID serial numbers for a symbol, such as "GBP".
func (c *Client) Serial(symbol string) *Source[UUID] {
	return sourceOf(c, "serial:"+symbol, uuidOfSeries)
}

// Region returns the source of a region's identifiers. The name is "NAME" or "NAME@SPACE".
func (c *Client) Region(name string) *Source[Number] {
	return sourceOf(c, "region:"+strings.TrimSuffix(name, "@default"), number)
}

// Source returns the source with this name, which `kent alloc` also accepts, such as "serial:GBP". Its identifiers are
// of type [UUID] ("uuid...", "serial:..."), [Number] ("region:...") or string. It does not share prefetched identifiers
// with the source that a typed method returns, such as [Client.Serial].
func (c *Client) Source(name string) *Source[any] {
	return sourceOf(c, name, kindOf(name))
}

func sourceOf[T any](c *Client, name string, of kind[T]) *Source[T] {
	key := sourceKey{name, (*T)(nil)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if found, ok := c.sources[key].(*Source[T]); ok {
		return found
	}
	made := newSource(c, name, of)
	c.sources[key] = made
	return made
}

// Conn returns a connection for the stubs of package kentv1, such as kentv1.NewRegionsClient(client.Conn()). Each call goes to the
// endpoint in use, with the client's token in its metadata. The client does not retry such calls.
func (c *Client) Conn() grpc.ClientConnInterface {
	return inUse{c}
}

// inUse sends calls to the endpoint in use.
type inUse struct {
	client *Client
}

func (u inUse) Invoke(ctx context.Context, method string, request, reply any, options ...grpc.CallOption) error {
	return u.client.conns[u.client.rotation.use()].Invoke(ctx, method, request, reply, options...)
}

func (u inUse) NewStream(
	ctx context.Context, description *grpc.StreamDesc, method string, options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	return u.client.conns[u.client.rotation.use()].NewStream(ctx, description, method, options...)
}

// Close closes the connections. Calls in flight end with [ErrClosed]. Prefetched identifiers are dropped, which leaves
// a gap.
func (c *Client) Close() error {
	c.cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, source := range c.sources {
		source.drop()
	}
	for _, conn := range c.conns {
		// Close fails only if the connection is closed already.
		_ = conn.Close()
	}
	return nil
}
