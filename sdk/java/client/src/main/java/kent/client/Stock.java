package kent.client;

import java.util.ArrayDeque;
import java.util.Deque;
import org.jspecify.annotations.Nullable;

/**
 * The prefetched blocks of one source, and how many identifiers to fetch next. Makes no calls. The
 * caller holds a lock, except to take from {@link #block}.
 */
final class Stock {
    /** A block should last about a second. If the last block lasted less, the size doubles. */
    private static final long LASTS = 1_000_000_000L;

    /** The maximum number of identifiers that a daemon returns as text, or packed, in one call. */
    private static final int TEXTS_MAX = 10_000;

    private static final int PACKED_MAX = 200_000;

    /** The block in use. */
    volatile Block block = Block.EMPTY;

    /** The maximum number of identifiers to request in one call. */
    final int sizeMax;

    private final Sizes sizes;
    private final Deque<Block> next = new ArrayDeque<>();
    private final int sizeMin;
    private int size;
    @Nullable Long askedLast;

    Stock(Kind kind, Sizes sizes) {
        this.sizes = sizes;
        sizeMax = Math.min(sizes.blockSizeMax(), kind.isText() ? TEXTS_MAX : PACKED_MAX);
        sizeMin = Math.min(sizes.blockSize(), sizeMax);
        size = sizeMin;
    }

    /** Drops all prefetched identifiers. */
    void drop() {
        block = Block.EMPTY;
        next.clear();
    }

    /**
     * Moves to the next block if the current one is used up or too old. Returns false if none is
     * left.
     */
    boolean advance() {
        while (!block.isUsable()) {
            Block following = next.poll();
            if (following == null) {
                return false;
            }
            block = following;
        }
        return true;
    }

    /** The size of the block to fetch now. */
    int nextSize() {
        long now = System.nanoTime();
        if (askedLast != null) {
            long lasted = now - askedLast;
            if (lasted < LASTS) {
                size = Math.min(size * 2, sizeMax);
            } else if (lasted > 10 * LASTS) {
                size = Math.max(size / 2, sizeMin);
            }
        }
        askedLast = now;
        return size;
    }

    void add(Block added) {
        added.keep(sizes);
        next.add(added);
    }

    /** Whether another block is prefetched, after the one in use. */
    boolean hasNext() {
        return !next.isEmpty();
    }

    int inHand() {
        return block.left() + next.stream().mapToInt(Block::left).sum();
    }
}
