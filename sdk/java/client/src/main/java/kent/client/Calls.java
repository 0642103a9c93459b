package kent.client;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientInterceptors;
import io.grpc.ConnectivityState;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Metadata;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.MetadataUtils;
import io.grpc.stub.StreamObserver;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import kent.v1.AllocateRequest;
import kent.v1.AllocateResponse;
import kent.v1.AllocatorGrpc;
import org.jspecify.annotations.Nullable;

/**
 * The connections of a client, and its calls for identifiers. A call tries one endpoint after
 * another.
 */
final class Calls {
    private static final Metadata.Key<String> AUTHORIZATION =
            Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);
    private static final int MESSAGE_MAX = 64 << 20;

    final Settings settings;
    private final Endpoints endpoints;
    private final Fences fences = new Fences();
    private final Map<Integer, ManagedChannel> channels = new HashMap<>();
    private final Set<CompletableFuture<Block>> inFlight = ConcurrentHashMap.newKeySet();
    private volatile boolean closed;

    Calls(Settings settings) {
        this.settings = settings;
        endpoints = new Endpoints(settings.endpoints());
    }

    boolean isClosed() {
        return closed;
    }

    /** Ends the calls in progress and closes the connections. */
    void close() {
        closed = true;
        for (CompletableFuture<Block> call : inFlight) {
            call.completeExceptionally(new KentException.Closed());
        }
        synchronized (channels) {
            channels.values().forEach(ManagedChannel::shutdownNow);
            channels.clear();
        }
    }

    /** The metadata of a call with a token. */
    static Metadata metadata(@Nullable String header) {
        Metadata metadata = new Metadata();
        if (header != null) {
            metadata.put(AUTHORIZATION, header);
        }
        return metadata;
    }

    /** The connection to the endpoint in use. */
    Channel channel() {
        return channel(endpoints.current());
    }

    private ManagedChannel channel(int index) {
        synchronized (channels) {
            if (closed) {
                throw new KentException.Closed();
            }
            ManagedChannel channel =
                    channels.computeIfAbsent(index, absent -> open(endpoints.get(index)));
            // gRPC's own pause before a reconnect grows to two minutes, and meanwhile each call
            // fails. The client has its own pauses, so connect immediately.
            if (channel.getState(false) == ConnectivityState.TRANSIENT_FAILURE) {
                channel.enterIdle();
            }
            return channel;
        }
    }

    private ManagedChannel open(Endpoint endpoint) {
        var credentials =
                endpoint.tls() ? settings.credentials() : InsecureChannelCredentials.create();
        try {
            ManagedChannelBuilder<?> builder =
                    Grpc.newChannelBuilder(endpoint.target(), credentials)
                            .maxInboundMessageSize(MESSAGE_MAX);
            if (endpoint.isUnix()) {
                // By default, gRPC sends the path of the socket as the name of the server, which
                // HTTP/2 servers refuse.
                builder.overrideAuthority("localhost");
            }
            return builder.build();
        } catch (RuntimeException unsupported) {
            // For example, gRPC does not support Unix sockets on every system.
            throw new KentException.Config(
                    "endpoint " + endpoint.name() + ": " + unsupported.getMessage(), unsupported);
        }
    }

    /** The attempts of a new request. */
    Attempts attempts(long deadline) {
        return new Attempts(
                endpoints, settings.token(), Times.nanos(settings.attemptTimeout()), deadline);
    }

    /** Fetches a block. The future fails at the deadline of the attempts at the latest. */
    CompletableFuture<Block> allocate(
            String source, Kind kind, int count, String requestId, Attempts attempts) {
        Call call = new Call(source, kind, count, requestId, attempts);
        inFlight.add(call.result);
        call.result.whenComplete((block, error) -> inFlight.remove(call.result));
        call.attempt();
        return call.result;
    }

    /** One request, with all its attempts. */
    private final class Call {
        final CompletableFuture<Block> result = new CompletableFuture<>();
        private final String source;
        private final Kind kind;
        private final AllocateRequest request;
        private final Attempts attempts;

        Call(String source, Kind kind, int count, String requestId, Attempts attempts) {
            this.source = source;
            this.kind = kind;
            this.attempts = attempts;
            request =
                    AllocateRequest.newBuilder()
                            .setSource(source)
                            .setCount(count)
                            .setEncoding(kind.encoding)
                            .setRequestId(requestId)
                            .build();
        }

        void attempt() {
            if (result.isDone()) {
                return;
            }
            try {
                long timeout = attempts.timeout();
                int index = endpoints.current();
                Channel channel =
                        ClientInterceptors.intercept(
                                channel(index),
                                MetadataUtils.newAttachHeadersInterceptor(
                                        metadata(attempts.header())));
                ClientCalls.asyncUnaryCall(
                        channel.newCall(
                                AllocatorGrpc.getAllocateMethod(),
                                CallOptions.DEFAULT.withDeadlineAfter(
                                        timeout, TimeUnit.NANOSECONDS)),
                        request,
                        new Reply(index));
            } catch (RuntimeException error) {
                result.completeExceptionally(error);
            }
        }

        private void again(long pause) {
            if (pause <= 0) {
                attempt();
            } else {
                Executor later = CompletableFuture.delayedExecutor(pause, TimeUnit.NANOSECONDS);
                later.execute(this::attempt);
            }
        }

        /** The reply of a daemon to one attempt. */
        private final class Reply implements StreamObserver<AllocateResponse> {
            private final int index;
            private final Times.Moment asked = Times.Moment.now();
            private @Nullable AllocateResponse reply;

            Reply(int index) {
                this.index = index;
            }

            @Override
            public void onNext(AllocateResponse value) {
                reply = value;
            }

            @Override
            public void onError(Throwable error) {
                decide(
                        () -> {
                            if (closed) {
                                throw new KentException.Closed();
                            }
                            again(attempts.after(index, error));
                        });
            }

            @Override
            public void onCompleted() {
                decide(
                        () -> {
                            AllocateResponse granted = reply;
                            if (granted == null) {
                                throw new KentException.Unusable("the daemon sent no reply");
                            }
                            // A retry with a request ID returns the block of the first grant, whose
                            // token can be lower than one already seen.
                            if (fences.admit(kind, source, granted)
                                    || !request.getRequestId().isEmpty()) {
                                result.complete(Block.of(kind, granted, request.getCount(), asked));
                            } else {
                                again(attempts.afterRejected(index));
                            }
                        });
            }

            private void decide(Runnable decision) {
                try {
                    if (!result.isDone()) {
                        decision.run();
                    }
                } catch (RuntimeException error) {
                    result.completeExceptionally(error);
                }
            }
        }
    }
}
