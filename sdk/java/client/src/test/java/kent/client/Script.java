package kent.client;

import com.google.protobuf.Any;
import com.google.protobuf.ByteString;
import com.google.protobuf.Duration;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import com.google.rpc.Status;
import io.grpc.Context;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.math.BigInteger;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedDeque;
import kent.v1.AllocateRequest;
import kent.v1.AllocateResponse;
import kent.v1.AllocatorGrpc;
import kent.v1.Encoding;
import kent.v1.PackedIdentifiers;
import kent.v1.TextIdentifiers;

/** A scripted daemon, for replies that a real daemon gives only rarely. */
final class Script extends AllocatorGrpc.AllocatorImplBase implements AutoCloseable {
    /** One answer. The last answer of a script is repeated. */
    interface Answer {
        AllocateResponse to(AllocateRequest request) throws Exception;
    }

    private static final Context.Key<String> TOKEN = Context.key("token");

    final List<AllocateRequest> requests = Collections.synchronizedList(new ArrayList<>());
    final List<String> tokens = Collections.synchronizedList(new ArrayList<>());
    final List<Long> times = Collections.synchronizedList(new ArrayList<>());
    private final Deque<Answer> answers = new ConcurrentLinkedDeque<>();
    private final Server server;

    Script(Answer... answers) {
        this(0, answers);
    }

    Script(int port, Answer... answers) {
        this.answers.addAll(List.of(answers));
        try {
            server =
                    NettyServerBuilder.forAddress(
                                    new InetSocketAddress(InetAddress.getLoopbackAddress(), port))
                            .addService(this)
                            .intercept(new Tokens())
                            .build()
                            .start();
        } catch (IOException error) {
            throw new AssertionError(error);
        }
    }

    String address() {
        return "127.0.0.1:" + server.getPort();
    }

    @Override
    public void close() {
        server.shutdownNow();
        try {
            server.awaitTermination();
        } catch (InterruptedException error) {
            throw new AssertionError(error);
        }
    }

    List<String> sources() {
        return List.copyOf(requests).stream().map(AllocateRequest::getSource).toList();
    }

    @Override
    public void allocate(AllocateRequest request, StreamObserver<AllocateResponse> reply) {
        Answer answer;
        synchronized (this) {
            requests.add(request);
            times.add(System.nanoTime());
            tokens.add(String.valueOf(TOKEN.get()));
            answer = answers.size() > 1 ? answers.remove() : answers.element();
        }
        try {
            reply.onNext(answer.to(request));
            reply.onCompleted();
        } catch (Exception error) {
            reply.onError(error);
        }
    }

    private static final class Tokens implements ServerInterceptor {
        @Override
        public <Q, A> ServerCall.Listener<Q> interceptCall(
                ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> next) {
            String token =
                    headers.get(Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER));
            return io.grpc.Contexts.interceptCall(
                    Context.current().withValue(TOKEN, token), call, headers, next);
        }
    }

    /**
     * A grant of the requested count of numbers (or strings, or UUIDs), starting at {@code first}.
     */
    static Answer granted(long first) {
        return granted(first, 1);
    }

    static Answer granted(long first, long token) {
        return request -> grant(request, first, token, (int) request.getCount());
    }

    static AllocateResponse grant(AllocateRequest request, long first, long token, int count) {
        if (request.getEncoding() == Encoding.ENCODING_TEXT) {
            TextIdentifiers.Builder text = TextIdentifiers.newBuilder();
            for (int i = 0; i < count; i++) {
                text.addIds(String.valueOf(first + i));
            }
            return AllocateResponse.newBuilder()
                    .setText(text.setFenceSubject(1).setFenceToken(token))
                    .build();
        }
        int width = request.getSource().startsWith("region:") ? 8 : 16;
        byte[] data = new byte[width * count];
        for (int i = 0; i < count; i++) {
            byte[] value = BigInteger.valueOf(first + i).toByteArray();
            System.arraycopy(value, 0, data, (i + 1) * width - value.length, value.length);
        }
        return AllocateResponse.newBuilder()
                .setPacked(
                        PackedIdentifiers.newBuilder()
                                .setWidth(width)
                                .setData(ByteString.copyFrom(data))
                                .setFenceSubject(1)
                                .setFenceToken(token))
                .build();
    }

    static Answer refused(io.grpc.Status.Code code, String reason) {
        return refused(code, reason, -1, Map.of());
    }

    static Answer refused(
            io.grpc.Status.Code code,
            String reason,
            int afterMillis,
            Map<String, String> metadata) {
        Status.Builder status = Status.newBuilder().setCode(code.value()).setMessage("scripted");
        status.addDetails(
                Any.pack(
                        ErrorInfo.newBuilder()
                                .setReason(reason)
                                .setDomain("kent")
                                .putAllMetadata(metadata)
                                .build()));
        status.addDetails(
                Any.pack(
                        BadRequest.newBuilder()
                                .addFieldViolations(
                                        BadRequest.FieldViolation.newBuilder().setField("source"))
                                .build()));
        if (afterMillis >= 0) {
            Duration delay =
                    Duration.newBuilder()
                            .setSeconds(afterMillis / 1000)
                            .setNanos(afterMillis % 1000 * 1_000_000)
                            .build();
            status.addDetails(Any.pack(RetryInfo.newBuilder().setRetryDelay(delay).build()));
        }
        return request -> {
            throw StatusProto.toStatusRuntimeException(status.build());
        };
    }

    /** An answer that arrives after a delay. */
    static Answer slow(int millis, Answer answer) {
        return request -> {
            Thread.sleep(millis);
            return answer.to(request);
        };
    }
}
