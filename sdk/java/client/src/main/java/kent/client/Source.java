package kent.client;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * A source with a stock of prefetched identifiers, for any number of threads. Most calls do not
 * wait.
 *
 * <pre>{@code
 * Source<UUID> events = client.uuidV7();
 * UUID event = events.next();
 * List<UUID> many = events.take(100_000);
 * events.nextAsync().thenAccept(System.out::println);
 * }</pre>
 *
 * @param <T> the type of the identifiers
 */
public final class Source<T> implements Supplier<T> {
    private final Supply supply;
    private final Block.Reader<T> reader;

    Source(Supply supply, Block.Reader<T> reader) {
        this.supply = supply;
        this.reader = reader;
    }

    /**
     * The next identifier. Waits for at most the client's {@code requestTimeout}.
     *
     * @throws KentException.Refused if the daemon refuses the request, for example for a sealed
     *     region
     * @throws KentException.Limited if the caller's limit is used up for longer than the timeout
     * @throws KentException.Unavailable if no daemon granted a block in time
     * @throws KentException.Closed if the client is closed
     */
    public T next() {
        T found = supply.poll(reader);
        return found != null ? found : await(Times.deadline(supply.requestTimeout()));
    }

    /** Like {@link #next()}, with another timeout. */
    public T next(Duration timeout) {
        T found = supply.poll(reader);
        return found != null ? found : await(Times.deadline(timeout));
    }

    /** The same as {@link #next()}, for the interface {@link Supplier}. */
    @Override
    public T get() {
        return next();
    }

    /**
     * The next identifier if one is prefetched. Otherwise, starts a fetch and does not wait for it.
     *
     * @throws KentException.Closed if the client is closed
     */
    public Optional<T> tryNext() {
        T found = supply.poll(reader);
        if (found == null) {
            supply.refill(Times.deadline(supply.requestTimeout()));
        }
        return Optional.ofNullable(found);
    }

    /**
     * The next identifier, without blocking a thread. The future fails with the errors of {@link
     * #next()}.
     */
    public CompletableFuture<T> nextAsync() {
        return nextAsync(supply.requestTimeout());
    }

    /** Like {@link #nextAsync()}, with another timeout. */
    public CompletableFuture<T> nextAsync(Duration timeout) {
        try {
            T found = supply.poll(reader);
            if (found != null) {
                return CompletableFuture.completedFuture(found);
            }
        } catch (KentException error) {
            return CompletableFuture.failedFuture(error);
        }
        Waiter waiter = new Waiter(Times.deadline(timeout));
        waiter.proceed();
        return waiter.result;
    }

    /**
     * {@code count} identifiers, prefetched ones first. If the call fails, the identifiers already
     * taken leave a gap.
     */
    public List<T> take(int count) {
        return take(count, supply.requestTimeout());
    }

    /** Like {@link #take(int)}, with another timeout. */
    public List<T> take(int count, Duration timeout) {
        return join(takeAsync(count, timeout));
    }

    /** Like {@link #take(int)}, without blocking a thread. */
    public CompletableFuture<List<T>> takeAsync(int count) {
        return takeAsync(count, supply.requestTimeout());
    }

    /** Like {@link #takeAsync(int)}, with another timeout. */
    public CompletableFuture<List<T>> takeAsync(int count, Duration timeout) {
        if (count < 0) {
            throw new IllegalArgumentException("count must be at least 0, not " + count);
        }
        CompletableFuture<List<T>> result = new CompletableFuture<>();
        takeRest(
                new ArrayList<>(Math.min(count, 1_000_000)),
                count,
                Times.deadline(timeout),
                result);
        return result;
    }

    /**
     * One grant from a strict region. Another call with the same request ID returns the same
     * identifiers. Use a version 7 UUID as the request ID.
     *
     * @throws KentException.Refused if the region is not strict, or the request ID was used with
     *     another count
     */
    public List<T> fetch(int count, String requestId) {
        return fetch(count, requestId, supply.requestTimeout());
    }

    /** Like {@link #fetch(int, String)}, with another timeout. */
    public List<T> fetch(int count, String requestId, Duration timeout) {
        return join(fetchAsync(count, requestId, timeout));
    }

    /** Like {@link #fetch(int, String)}, without blocking a thread. */
    public CompletableFuture<List<T>> fetchAsync(int count, String requestId) {
        return fetchAsync(count, requestId, supply.requestTimeout());
    }

    /** Like {@link #fetchAsync(int, String)}, with another timeout. */
    public CompletableFuture<List<T>> fetchAsync(int count, String requestId, Duration timeout) {
        if (count < 1) {
            throw new IllegalArgumentException("count must be at least 1, not " + count);
        }
        CompletableFuture<List<T>> result = new CompletableFuture<>();
        supply.fetchOnce(count, requestId, Times.deadline(timeout))
                .thenApply(block -> readAll(block, new ArrayList<>(block.count())))
                .whenComplete((ids, error) -> settle(result, ids, error));
        return result;
    }

    /** The number of prefetched identifiers. */
    public int inHand() {
        return supply.inHand();
    }

    @Override
    public String toString() {
        return "Source[" + supply.name + "]";
    }

    private T await(long deadline) {
        while (true) {
            T found = supply.poll(reader);
            if (found != null) {
                return found;
            }
            Supply.Fetch fetch = supply.refill(deadline);
            if (fetch == null) {
                continue;
            }
            try {
                fetch.done.get(Math.max(0, Times.left(deadline)), TimeUnit.NANOSECONDS);
            } catch (TimeoutException late) {
                if (!fetch.done.isDone()) {
                    throw fetch.late();
                }
            } catch (ExecutionException failed) {
                Throwable error = failed.getCause();
                if (!mayRetry(fetch, error, deadline)) {
                    throw thrown(error);
                }
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
                throw new KentException.Interrupted(interrupted);
            }
        }
    }

    /**
     * Whether to retry after a fetch that another caller started has failed before this caller's
     * deadline.
     */
    private static boolean mayRetry(Supply.Fetch fetch, @Nullable Throwable error, long deadline) {
        return deadline - fetch.deadline > 0
                && Times.left(deadline) > 0
                && error instanceof KentException retryable
                && retryable.isRetryable();
    }

    /** A caller that waits for an identifier without blocking a thread. */
    private final class Waiter {
        final CompletableFuture<T> result = new CompletableFuture<>();
        private final long deadline;
        private boolean hasTimer;

        Waiter(long deadline) {
            this.deadline = deadline;
        }

        void proceed() {
            try {
                while (!result.isDone()) {
                    T found = supply.poll(reader);
                    if (found != null) {
                        result.complete(found);
                        return;
                    }
                    Supply.Fetch fetch = supply.refill(deadline);
                    if (fetch != null) {
                        startTimer(fetch);
                        fetch.done.whenComplete((block, error) -> after(fetch, error));
                        return;
                    }
                }
            } catch (RuntimeException error) {
                result.completeExceptionally(error);
            }
        }

        private void after(Supply.Fetch fetch, @Nullable Throwable error) {
            if (error == null || mayRetry(fetch, error, deadline)) {
                proceed();
            } else {
                result.completeExceptionally(error);
            }
        }

        private void startTimer(Supply.Fetch fetch) {
            if (hasTimer) {
                return;
            }
            hasTimer = true;
            CompletableFuture<@Nullable Void> timer = new CompletableFuture<>();
            timer.orTimeout(Math.max(0, Times.left(deadline)), TimeUnit.NANOSECONDS)
                    .whenComplete(
                            (nothing, late) -> {
                                if (late != null) {
                                    result.completeExceptionally(fetch.late());
                                }
                            });
            result.whenComplete((found, error) -> timer.complete(null));
        }
    }

    private void takeRest(
            List<T> taken, int count, long deadline, CompletableFuture<List<T>> result) {
        try {
            while (taken.size() < count) {
                T found = supply.poll(reader);
                if (found == null) {
                    int size = Math.min(count - taken.size(), supply.sizeMax());
                    supply.fetch(size, deadline)
                            .whenComplete(
                                    (block, error) -> {
                                        if (error != null) {
                                            settle(result, null, error);
                                        } else {
                                            readAll(block, taken);
                                            takeRest(taken, count, deadline, result);
                                        }
                                    });
                    return;
                }
                taken.add(found);
            }
            result.complete(taken);
        } catch (RuntimeException error) {
            result.completeExceptionally(error);
        }
    }

    private List<T> readAll(Block block, List<T> into) {
        for (int at = 0; at < block.count(); at++) {
            into.add(reader.read(block, at));
        }
        return into;
    }

    private static <U> void settle(
            CompletableFuture<U> result, @Nullable U value, @Nullable Throwable error) {
        if (error != null) {
            result.completeExceptionally(Supply.cause(error));
        } else if (value != null) {
            result.complete(value);
        }
    }

    private static <U> U join(CompletableFuture<U> result) {
        try {
            return result.get();
        } catch (ExecutionException failed) {
            throw thrown(failed.getCause());
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new KentException.Interrupted(interrupted);
        }
    }

    /** The error to throw, with the stack trace of this thread. */
    private static RuntimeException thrown(@Nullable Throwable error) {
        return error instanceof KentException known
                ? known.again()
                : new KentException.Unusable("unexpected: " + error, error);
    }
}
