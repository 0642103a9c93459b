package kent.client;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ClientInterceptors;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.stub.MetadataUtils;
import java.math.BigInteger;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import kent.v1.AccessGrpc;
import kent.v1.AdminGrpc;
import kent.v1.CodecGrpc;
import kent.v1.LayoutsGrpc;
import kent.v1.RegionsGrpc;
import org.jspecify.annotations.Nullable;

/**
 * A client of Kent for any number of threads. Use one client per process: all its sources share its
 * connections.
 *
 * <pre>{@code
 * try (Client client = Client.connect("127.0.0.1:7600")) {
 *     UUID event = client.uuidV7().next();
 *     BigInteger order = client.region("orders").next();
 * }
 * }</pre>
 */
public final class Client implements AutoCloseable {
    private final Calls calls;
    private final Map<String, Supply> supplies = new ConcurrentHashMap<>();
    private final Map<Handle, Source<?>> sources = new ConcurrentHashMap<>();

    private record Handle(String source, Type type) {}

    /** The Java type of identifiers. */
    private enum Type {
        UUID,
        TEXT,
        NUMBER,
        SIGNED,
        UNSIGNED
    }

    private Client(Settings settings) {
        calls = new Calls(settings);
    }

    /**
     * Creates a client with the default settings. It connects at the first call.
     *
     * @param endpoints {@code HOST:PORT}, {@code https://HOST:PORT} or {@code unix:/PATH}; the
     *     first is preferred, and the others are used while it fails. Default: {@code
     *     127.0.0.1:7600}
     * @throws KentException.Config if an endpoint is invalid
     */
    public static Client connect(String... endpoints) {
        return builder().endpoints(endpoints).build();
    }

    /** Creates a client with other settings. */
    public static Builder builder() {
        return new Builder();
    }

    /** Version 7 UUIDs, which are ordered by time. */
    public Source<UUID> uuidV7() {
        return handle("uuidv7", Type.UUID, Block::uuid);
    }

    /** Version 6 UUIDs, which are version 1 UUIDs with the timestamp first. */
    public Source<UUID> uuidV6() {
        return handle("uuidv6", Type.UUID, Block::uuid);
    }

    /** xids, which have 11 characters and are ordered by time. */
    public Source<String> xid() {
        return handle("xid", Type.TEXT, Block::text);
    }

    /** The identifiers of a region of the space {@code default}. */
    public Source<BigInteger> region(String name) {
        return handle("region:" + name, Type.NUMBER, Block::number);
    }

    /** The identifiers of a region of another space. */
    public Source<BigInteger> region(String name, String space) {
        return handle(regionOf(name, space), Type.NUMBER, Block::number);
    }

    /**
     * The identifiers of a region as longs. A number above {@link Long#MAX_VALUE} causes the error
     * {@link KentException.Unusable}.
     */
    public Source<Long> regionLong(String name) {
        return handle("region:" + name, Type.SIGNED, Block::signed);
    }

    /**
     * The identifiers of a region of up to 64 bits, as longs with the same bits. Numbers from 2^63
     * are negative; {@link Long#toUnsignedString(long)} prints them correctly. A number of more
     * than 64 bits causes the error {@link KentException.Unusable}.
     */
    public Source<Long> regionUnsignedLong(String name) {
        return handle("region:" + name, Type.UNSIGNED, Block::unsigned);
    }

    /**
     * The source with this name, as in {@code kent alloc}, such as {@code serial:GBP}. Its
     * identifiers are of type {@link UUID}, {@link BigInteger} (from a region) or {@link String}.
     */
    public Source<?> source(String name) {
        Kind kind = Kind.of(name);
        if (kind.isUuid()) {
            return handle(name, Type.UUID, Block::uuid);
        }
        return kind.isText()
                ? handle(name, Type.TEXT, Block::text)
                : handle(name, Type.NUMBER, Block::number);
    }

    /**
     * Any source whose identifiers have this type: {@link UUID}, {@link String}, {@link BigInteger}
     * or {@link Long} (like {@link #regionLong}).
     *
     * <pre>{@code
     * Source<UUID> pounds = client.source("serial:GBP", UUID.class);
     * }</pre>
     *
     * @throws KentException.Config if the source has identifiers of another type
     */
    public <T> Source<T> source(String name, Class<T> type) {
        Kind kind = Kind.of(name);
        boolean asLong = kind == Kind.NUMBER && type == Long.class;
        Class<?> own = kind.isUuid() ? UUID.class : kind.isText() ? String.class : BigInteger.class;
        Settings.check("the type of " + name, own.getName(), asLong || type == own);
        @SuppressWarnings("unchecked") // Checked above.
        Source<T> source =
                (Source<T>) (asLong ? handle(name, Type.SIGNED, Block::signed) : source(name));
        return source;
    }

    private static String regionOf(String name, String space) {
        return space.equals("default") ? "region:" + name : "region:" + name + "@" + space;
    }

    @SuppressWarnings("unchecked") // Each type has one reader.
    private <T> Source<T> handle(String name, Type type, Block.Reader<T> reader) {
        Supply supply = supplies.computeIfAbsent(name, absent -> new Supply(name, calls));
        return (Source<T>)
                sources.computeIfAbsent(
                        new Handle(name, type), absent -> new Source<>(supply, reader));
    }

    /**
     * The connection to the endpoint in use, for the stubs of {@code kent.v1}. It sends the token
     * with each call.
     */
    public Channel channel() {
        return ClientInterceptors.intercept(calls.channel(), new Authorization());
    }

    /** The metadata with the token, for calls on your own connection. */
    public Metadata metadata() {
        return Calls.metadata(calls.settings.token().header());
    }

    private final class Authorization implements ClientInterceptor {
        @Override
        public <Q, A> ClientCall<Q, A> interceptCall(
                MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
            return MetadataUtils.newAttachHeadersInterceptor(metadata())
                    .interceptCall(method, options, next);
        }
    }

    /** The stub that manages regions. */
    public RegionsGrpc.RegionsBlockingStub regions() {
        return RegionsGrpc.newBlockingStub(channel());
    }

    /** The stub that inspects and classifies identifiers. */
    public CodecGrpc.CodecBlockingStub codec() {
        return CodecGrpc.newBlockingStub(channel());
    }

    /** The stub for operator tasks, such as status and backup. */
    public AdminGrpc.AdminBlockingStub admin() {
        return AdminGrpc.newBlockingStub(channel());
    }

    /** The stub that manages custom layouts. */
    public LayoutsGrpc.LayoutsBlockingStub layouts() {
        return LayoutsGrpc.newBlockingStub(channel());
    }

    /** The stub for tokens, roles and budgets. */
    public AccessGrpc.AccessBlockingStub access() {
        return AccessGrpc.newBlockingStub(channel());
    }

    /**
     * Closes the connections. Calls in progress end with {@link KentException.Closed}. Prefetched
     * identifiers are dropped, which leaves a gap.
     */
    @Override
    public void close() {
        calls.close();
        supplies.values().forEach(Supply::drop);
    }

    /** The settings of a client. */
    public static final class Builder {
        List<String> endpoints = List.of();
        @Nullable String token;
        @Nullable Path tokenFile;
        boolean allowPlainToken;
        @Nullable Path ca;
        @Nullable Path cert;
        @Nullable Path key;
        Duration attemptTimeout = Duration.ofSeconds(2);
        Duration requestTimeout = Duration.ofSeconds(10);
        int blockSize = 1000;
        int blockSizeMax = 100_000;
        double lowWater = 0.5;
        Duration maxAge = Duration.ofSeconds(10);
        boolean followHeirs;

        private Builder() {}

        /**
         * The endpoints, as {@code HOST:PORT}, {@code https://HOST:PORT} or {@code unix:/PATH}. The
         * first is preferred, and the others are used while it fails. {@code HOST:PORT} uses TLS if
         * there is a CA or a certificate. Default: {@code 127.0.0.1:7600}.
         */
        public Builder endpoints(String... endpoints) {
            return endpoints(List.of(endpoints));
        }

        /** Like {@link #endpoints(String...)}. */
        public Builder endpoints(List<String> endpoints) {
            this.endpoints = List.copyOf(endpoints);
            return this;
        }

        /** The caller's token, as {@code kent token create} prints it. */
        public Builder token(String token) {
            this.token = token;
            return this;
        }

        /** A file with the caller's token. The client reads the file again when it changes. */
        public Builder tokenFile(Path file) {
            tokenFile = file;
            return this;
        }

        /** Whether to send the token to other machines without TLS. Default: no. */
        public Builder allowPlainToken(boolean allow) {
            allowPlainToken = allow;
            return this;
        }

        /**
         * A PEM file with the CAs to trust. The default is the CAs of the Java installation.
         * Endpoints without a scheme then use TLS.
         */
        public Builder ca(Path file) {
            ca = file;
            return this;
        }

        /**
         * The PEM files of the client's certificate and of its private key, in PKCS #8 format.
         * Endpoints without a scheme then use TLS.
         */
        public Builder certificate(Path certificate, Path key) {
            cert = certificate;
            this.key = key;
            return this;
        }

        /** The timeout of one attempt. Default: 2 seconds. */
        public Builder attemptTimeout(Duration timeout) {
            attemptTimeout = timeout;
            return this;
        }

        /** The timeout of a request, including all its attempts. Default: 10 seconds. */
        public Builder requestTimeout(Duration timeout) {
            requestTimeout = timeout;
            return this;
        }

        /**
         * The number of identifiers in the first block. The size adapts so that a block lasts about
         * a second. Default: 1000.
         */
        public Builder blockSize(int size) {
            blockSize = size;
            return this;
        }

        /** The maximum number of identifiers in a block. Default: 100,000; at most 200,000. */
        public Builder blockSizeMax(int size) {
            blockSizeMax = size;
            return this;
        }

        /** The share of a block that is left when the next block is fetched. Default: 0.5. */
        public Builder lowWater(double share) {
            lowWater = share;
            return this;
        }

        /**
         * The age at which identifiers that contain a timestamp are dropped. Default: 10 seconds.
         */
        public Builder maxAge(Duration age) {
            maxAge = age;
            return this;
        }

        /** Whether to continue with the heir of a closed region. Default: no. */
        public Builder followHeirs(boolean follow) {
            followHeirs = follow;
            return this;
        }

        /**
         * Creates the client.
         *
         * @throws KentException.Config if a setting is invalid
         */
        public Client build() {
            return new Client(Settings.of(this));
        }
    }
}
