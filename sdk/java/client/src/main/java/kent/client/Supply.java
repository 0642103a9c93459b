package kent.client;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import org.jspecify.annotations.Nullable;

/** The stock of one source, for any number of threads, and the fetches that fill it. */
final class Supply {
    /**
     * The maximum number of moves to an heir within one fetch. An heir is rarely closed before it
     * is used.
     */
    private static final int MOVES_MAX = 16;

    final String name;
    final Kind kind;
    private final Calls calls;
    private final Stock stock;
    private final Object lock = new Object();
    private volatile String source;
    private @Nullable Fetch fetching;

    Supply(String name, Calls calls) {
        this.name = name;
        this.calls = calls;
        kind = Kind.of(name);
        source = name;
        stock = new Stock(kind, calls.settings.sizes());
    }

    /** A fetch in progress, of a block of the source or of its heir. */
    static final class Fetch {
        final CompletableFuture<Block> done = new CompletableFuture<>();
        final long deadline;
        private volatile @Nullable Attempts attempts;

        Fetch(long deadline) {
            this.deadline = deadline;
        }

        /** The error for a caller whose deadline has passed. */
        KentException late() {
            Attempts current = attempts;
            return current == null
                    ? new KentException.Unavailable(java.util.Map.of())
                    : current.late();
        }
    }

    int sizeMax() {
        return stock.sizeMax;
    }

    int inHand() {
        synchronized (lock) {
            return stock.inHand();
        }
    }

    /** Drops all prefetched identifiers, after the client was closed. */
    void drop() {
        synchronized (lock) {
            stock.drop();
        }
    }

    Duration requestTimeout() {
        return calls.settings.requestTimeout();
    }

    /**
     * A prefetched identifier, if there is one. Fetches the next block when the current one is low.
     */
    <T> @Nullable T poll(Block.Reader<T> reader) {
        Block block = stock.block;
        int at = block.take();
        return at < 0 ? pollNext(reader) : read(reader, block, at);
    }

    private <T> @Nullable T pollNext(Block.Reader<T> reader) {
        while (true) {
            Block block;
            synchronized (lock) {
                if (!stock.advance()) {
                    return null;
                }
                block = stock.block;
            }
            int at = block.take();
            if (at >= 0) {
                return read(reader, block, at);
            }
        }
    }

    private <T> T read(Block.Reader<T> reader, Block block, int at) {
        if (block.isLow(at) && !calls.isClosed()) {
            refill(Times.deadline(requestTimeout()));
        }
        return reader.read(block, at);
    }

    /**
     * Starts a fetch if none is in progress. Returns the fetch, or null if a block is already
     * prefetched.
     */
    @Nullable Fetch refill(long deadline) {
        Fetch fetch;
        int size;
        synchronized (lock) {
            if (fetching != null) {
                return fetching;
            }
            if (calls.isClosed()) {
                throw new KentException.Closed();
            }
            if (stock.hasNext()) {
                return null;
            }
            fetch = new Fetch(Times.later(deadline, Times.deadline(requestTimeout())));
            fetching = fetch;
            size = stock.nextSize();
        }
        start(fetch, size).whenComplete((block, error) -> end(fetch, block, error));
        return fetch;
    }

    private void end(Fetch fetch, @Nullable Block block, @Nullable Throwable error) {
        synchronized (lock) {
            fetching = null;
            if (block != null && !calls.isClosed()) {
                stock.add(block);
            }
        }
        if (block != null) {
            fetch.done.complete(block);
        } else if (error != null) {
            fetch.done.completeExceptionally(cause(error));
        }
    }

    /** Fetches a block for one caller, without adding it to the stock. */
    CompletableFuture<Block> fetch(int count, long deadline) {
        return start(new Fetch(deadline), count);
    }

    /**
     * Fetches the block of a request ID. Does not follow heirs: an heir would grant the request ID
     * again.
     */
    CompletableFuture<Block> fetchOnce(int count, String requestId, long deadline) {
        return calls.allocate(name, kind, count, requestId, calls.attempts(deadline));
    }

    private CompletableFuture<Block> start(Fetch fetch, int count) {
        return start(fetch, count, MOVES_MAX);
    }

    private CompletableFuture<Block> start(Fetch fetch, int count, int moves) {
        String from = source;
        Attempts attempts = calls.attempts(fetch.deadline);
        fetch.attempts = attempts;
        CompletableFuture<Block> block = calls.allocate(from, kind, count, "", attempts);
        if (!calls.settings.followHeirs()) {
            return block;
        }
        return block.handle((granted, error) -> follow(fetch, count, moves, block, error))
                .thenCompose(one -> one);
    }

    private CompletableFuture<Block> follow(
            Fetch fetch,
            int count,
            int moves,
            CompletableFuture<Block> block,
            @Nullable Throwable error) {
        if (error == null || !(cause(error) instanceof KentException.Refused refused)) {
            return block;
        }
        String heir = refused.heir().orElse(null);
        if (heir == null) {
            return block;
        }
        if (moves == 0) {
            return CompletableFuture.failedFuture(
                    new KentException.Unusable(source + " is closed, as are its heirs"));
        }
        source = heir;
        return start(fetch, count, moves - 1);
    }

    /** The error of a future, without the exceptions that other futures wrapped around it. */
    static Throwable cause(Throwable error) {
        Throwable cause = error;
        while (cause instanceof CompletionException && cause.getCause() != null) {
            cause = cause.getCause();
        }
        return cause;
    }
}
