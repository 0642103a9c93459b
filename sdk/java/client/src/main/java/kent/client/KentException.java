package kent.client;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import java.time.Duration;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * The errors of the client. Identifiers that are lost because of an error leave a gap: no other
 * caller gets them.
 *
 * <pre>{@code
 * try {
 *     return orders.next();
 * } catch (KentException.Refused refused) {
 *     if (refused.reason().equals("SEALED")) ...
 * }
 * }</pre>
 */
public abstract sealed class KentException extends RuntimeException {
    KentException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }

    /** The same error with the stack trace of a caller that waited for another thread's call. */
    abstract KentException again();

    /** Whether the same call may succeed later. */
    public boolean isRetryable() {
        return false;
    }

    /** A setting of the client is invalid. */
    public static final class Config extends KentException {
        Config(String message, @Nullable Throwable cause) {
            super(message, cause);
        }

        Config(String message) {
            this(message, null);
        }

        @Override
        KentException again() {
            return new Config(messageOf(this), this);
        }
    }

    /** A daemon answered with an error, or a connection broke. */
    public static sealed class Rpc extends KentException permits Refused, Limited {
        private final transient Details details;

        Rpc(Details details, @Nullable Throwable cause) {
            super(details.code() + ": " + details.message(), cause);
            this.details = details;
        }

        Details details() {
            return details;
        }

        @Override
        KentException again() {
            return new Rpc(details, this);
        }

        @Override
        public boolean isRetryable() {
            return details.isTransient();
        }

        /** The gRPC code. */
        public Status.Code code() {
            return details.code();
        }

        /** The daemon's message: what is wrong, and what is allowed. */
        public String description() {
            return details.message();
        }

        /**
         * The machine-readable reason, such as {@code SEALED}. Empty if the daemon gave no reason.
         */
        public String reason() {
            return details.reason();
        }

        /** The details of the reason. */
        public Map<String, String> metadata() {
            return details.metadata();
        }

        /** The invalid fields of the request. */
        public List<String> fields() {
            return details.fields();
        }

        /** The delay that the daemon asks for before a retry. */
        public Optional<Duration> retryAfter() {
            return Optional.ofNullable(details.retryAfter());
        }

        /**
         * The source that continues the numbers of a closed region, such as {@code
         * region:orders-eu}.
         */
        public Optional<String> heir() {
            return reason().equals("CLOSED")
                    ? Optional.ofNullable(metadata().get("heir"))
                    : Optional.empty();
        }
    }

    /** The daemon refused the request. A repeated request is refused until the cause is removed. */
    public static final class Refused extends Rpc {
        Refused(Details details, @Nullable Throwable cause) {
            super(details, cause);
        }

        @Override
        KentException again() {
            return new Refused(details(), this);
        }

        @Override
        public boolean isRetryable() {
            return false;
        }
    }

    /** The caller has used up one of its limits, and the wait is longer than the timeout. */
    public static final class Limited extends Rpc {
        Limited(Details details, @Nullable Throwable cause) {
            super(details, cause);
        }

        @Override
        KentException again() {
            return new Limited(details(), this);
        }

        @Override
        public boolean isRetryable() {
            return true;
        }
    }

    /** No daemon granted identifiers within the timeout. */
    public static final class Unavailable extends KentException {
        private final transient Map<String, KentException> tried;

        Unavailable(Map<String, KentException> tried) {
            this(tried, null);
        }

        private Unavailable(Map<String, KentException> tried, @Nullable Throwable cause) {
            super("no daemon granted identifiers in time (" + join(tried) + ")", cause);
            this.tried = Collections.unmodifiableMap(new LinkedHashMap<>(tried));
        }

        private static String join(Map<String, KentException> tried) {
            return tried.isEmpty()
                    ? "no reply yet"
                    : tried.entrySet().stream()
                            .map(one -> one.getKey() + ": " + messageOf(one.getValue()))
                            .collect(Collectors.joining("; "));
        }

        @Override
        KentException again() {
            return new Unavailable(tried, this);
        }

        @Override
        public boolean isRetryable() {
            return true;
        }

        /** The last error of each endpoint that was tried. */
        public Map<String, KentException> tried() {
            return tried;
        }
    }

    /**
     * Many blocks in a row were older than one already seen. The store was probably restored from a
     * backup: create a new client.
     */
    public static final class Fenced extends KentException {
        Fenced(String message, @Nullable Throwable cause) {
            super(message, cause);
        }

        @Override
        KentException again() {
            return new Fenced(messageOf(this), this);
        }
    }

    /**
     * The reply of a daemon is invalid, or has identifiers of another type than the source. The
     * daemon and the client may have different versions.
     */
    public static final class Unusable extends KentException {
        Unusable(String message, @Nullable Throwable cause) {
            super(message, cause);
        }

        Unusable(String message) {
            this(message, null);
        }

        @Override
        KentException again() {
            return new Unusable(messageOf(this), this);
        }
    }

    /** The client is closed. */
    public static final class Closed extends KentException {
        Closed(@Nullable Throwable cause) {
            super("the client is closed", cause);
        }

        Closed() {
            this(null);
        }

        @Override
        KentException again() {
            return new Closed(this);
        }
    }

    /** The thread was interrupted while it waited. Its interrupt flag is set again. */
    public static final class Interrupted extends KentException {
        Interrupted(Throwable cause) {
            super("interrupted while waiting for identifiers", cause);
        }

        @Override
        KentException again() {
            return new Interrupted(this);
        }
    }

    private static String messageOf(KentException error) {
        return String.valueOf(error.getMessage());
    }

    /** The details of a failed call. */
    record Details(
            Status.Code code,
            String message,
            String reason,
            Map<String, String> metadata,
            List<String> fields,
            @Nullable Duration retryAfter) {

        /** Reads the details that a daemon sends with an error. */
        static Details of(Throwable error) {
            Status status = Status.fromThrowable(error);
            String reason = "";
            Map<String, String> metadata = Map.of();
            List<String> fields = List.of();
            Duration retryAfter = null;
            for (Any detail : details(error)) {
                try {
                    if (detail.is(ErrorInfo.class)) {
                        ErrorInfo info = detail.unpack(ErrorInfo.class);
                        reason = info.getReason();
                        metadata = Map.copyOf(info.getMetadataMap());
                    } else if (detail.is(RetryInfo.class)) {
                        var delay = detail.unpack(RetryInfo.class).getRetryDelay();
                        retryAfter = Duration.ofSeconds(delay.getSeconds(), delay.getNanos());
                    } else if (detail.is(BadRequest.class)) {
                        fields =
                                detail.unpack(BadRequest.class).getFieldViolationsList().stream()
                                        .map(BadRequest.FieldViolation::getField)
                                        .toList();
                    }
                } catch (InvalidProtocolBufferException malformed) {
                    // A proxy may send invalid details. The code and the message are enough.
                }
            }
            return new Details(
                    status.getCode(), text(status), reason, metadata, fields, retryAfter);
        }

        private static List<Any> details(Throwable error) {
            try {
                var status = StatusProto.fromThrowable(error);
                return status == null ? List.of() : status.getDetailsList();
            } catch (RuntimeException malformed) {
                return List.of();
            }
        }

        /** The message, with the cause if there was no connection. */
        private static String text(Status status) {
            String description = status.getDescription();
            Throwable cause = status.getCause();
            String text = description == null ? "" : description;
            if (cause == null || cause.getMessage() == null) {
                return text;
            }
            while (cause.getCause() != null && cause.getCause().getMessage() != null) {
                cause = cause.getCause();
            }
            return text.isEmpty() ? cause.getMessage() : text + ": " + cause.getMessage();
        }

        /** Whether another attempt can succeed. A retry is safe: a lost reply only leaves a gap. */
        boolean isTransient() {
            return switch (code) {
                case UNAVAILABLE, UNKNOWN, DEADLINE_EXCEEDED, CANCELLED, ABORTED -> true;
                // gRPC reports some broken connections this way; Kent's own errors have a reason.
                case INTERNAL -> reason.isEmpty();
                // A delay means that a limit of the clock, the pace or the caller is temporary. The
                // error of a full region has no delay.
                case RESOURCE_EXHAUSTED -> retryAfter != null;
                default -> false;
            };
        }
    }
}
