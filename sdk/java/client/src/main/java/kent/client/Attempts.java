package kent.client;

import io.grpc.Status;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ThreadLocalRandom;
import kent.client.KentException.Details;
import org.jspecify.annotations.Nullable;

/**
 * Plans the attempts of one request until its deadline: selects the endpoint of the next attempt
 * and the wait before it. Makes no calls and does not sleep.
 */
final class Attempts {
    private static final long MILLISECOND = 1_000_000L;
    private static final long PAUSE_MIN = 20 * MILLISECOND;
    private static final long PAUSE_MAX = 1_000 * MILLISECOND;

    /** The pause after a block from a replica that lags behind. */
    private static final long LAG = 20 * MILLISECOND;

    /** After this many rejected blocks in a row, the request fails. */
    private static final int REJECTED_MAX = 300;

    private final Endpoints endpoints;
    private final Token token;
    private final long attemptTimeout;
    private final long deadline;
    private final Map<String, KentException> tried = new LinkedHashMap<>();
    private @Nullable Details limit;
    private @Nullable String sent;
    private int withoutPause;
    private long pause = PAUSE_MIN;
    private int rejected;

    Attempts(Endpoints endpoints, Token token, long attemptTimeout, long deadline) {
        this.endpoints = endpoints;
        this.token = token;
        this.attemptTimeout = attemptTimeout;
        this.deadline = deadline;
        withoutPause = endpoints.size() - 1;
    }

    /** The timeout of the next attempt, in nanoseconds. */
    synchronized long timeout() {
        long left = Times.left(deadline);
        if (left <= 0) {
            throw late();
        }
        return Math.min(left, attemptTimeout);
    }

    /** The value of the header {@code authorization} for the next attempt. */
    synchronized @Nullable String header() {
        sent = token.header();
        return sent;
    }

    /** The error for a caller whose deadline has passed. */
    synchronized KentException late() {
        return limit == null
                ? new KentException.Unavailable(tried)
                : new KentException.Limited(limit, null);
    }

    /**
     * The nanoseconds to wait after a failed attempt. Throws the final error if another attempt
     * cannot help.
     */
    synchronized long after(int index, Throwable error) {
        Details details = Details.of(error);
        limit = null;
        if (!details.isTransient()) {
            if (details.code() == Status.Code.UNAUTHENTICATED
                    && !Objects.equals(sent, token.refresh())) {
                return 0;
            }
            throw new KentException.Refused(details, error);
        }
        // A daemon that reports a limit is healthy, so another daemon would not help.
        if (details.code() != Status.Code.RESOURCE_EXHAUSTED) {
            endpoints.leave(index);
        }
        tried.put(endpoints.get(index).name(), new KentException.Rpc(details, error));
        long wait = details.retryAfter() == null ? backoff() : Times.nanos(details.retryAfter());
        if (details.reason().equals("LIMIT")) {
            limit = details;
        }
        return checked(wait);
    }

    /** The nanoseconds to wait after a block with a fencing token lower than one already seen. */
    synchronized long afterRejected(int index) {
        limit = null;
        rejected++;
        if (rejected >= REJECTED_MAX) {
            throw new KentException.Fenced(
                    rejected
                            + " blocks in a row were older than one already seen; make a new"
                            + " client",
                    null);
        }
        tried.put(
                endpoints.get(index).name(),
                new KentException.Unusable("its block was older than one already seen"));
        endpoints.leave(index);
        return checked(LAG);
    }

    /**
     * The pause before the next attempt: none while there are other endpoints to try, and then a
     * growing time.
     */
    long backoff() {
        if (withoutPause > 0) {
            withoutPause--;
            return 0;
        }
        long wait = (long) (pause * ThreadLocalRandom.current().nextDouble(1, 2));
        pause = Math.min(pause * 2, PAUSE_MAX);
        return wait;
    }

    private long checked(long wait) {
        if (Times.left(deadline) <= wait) {
            throw late();
        }
        return wait;
    }
}
