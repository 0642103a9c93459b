package kent.client;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.math.BigInteger;
import java.nio.ByteOrder;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import kent.v1.AllocateResponse;

/** Prefetched identifiers, encoded as the daemon sent them. Threads take them without a lock. */
final class Block {
    /** A block without identifiers. */
    static final Block EMPTY =
            new Block(Kind.NUMBER, new byte[0], 1, List.of(), new Times.Moment(0, 0));

    private static final VarHandle LONG =
            MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.BIG_ENDIAN);

    private final Kind kind;
    private final byte[] data;
    private final int width;
    private final List<String> texts;
    private final int count;
    private final Times.Moment asked;
    private final AtomicInteger next = new AtomicInteger();
    private long maxAge = Long.MAX_VALUE;
    private int low = -1;

    private Block(Kind kind, byte[] data, int width, List<String> texts, Times.Moment asked) {
        this.kind = kind;
        this.data = data;
        this.width = width;
        this.texts = texts;
        this.count = kind.isText() ? texts.size() : data.length / width;
        this.asked = asked;
    }

    /** The block of a reply to a request for {@code requested} identifiers. */
    static Block of(Kind kind, AllocateResponse reply, long requested, Times.Moment asked) {
        Block block;
        if (kind.isText()) {
            if (!reply.hasText()) {
                throw new KentException.Unusable("the daemon returned no identifiers as text");
            }
            block = new Block(kind, new byte[0], 1, reply.getText().getIdsList(), asked);
        } else {
            int width = reply.getPacked().getWidth();
            byte[] data = reply.getPacked().getData().toByteArray();
            if (width <= 0 || data.length % width != 0) {
                throw new KentException.Unusable("the daemon returned no packed identifiers");
            }
            if (kind.isUuid() && width != 16) {
                throw new KentException.Unusable(
                        "identifiers of " + width + " bytes are not UUIDs");
            }
            block = new Block(kind, data, width, List.of(), asked);
        }
        if (block.count < 1 || block.count > requested) {
            throw new KentException.Unusable(
                    "requested " + requested + " identifiers, got " + block.count);
        }
        return block;
    }

    /**
     * Sets the age at which the block expires, and the fill level at which the next block is
     * fetched.
     */
    void keep(Sizes sizes) {
        maxAge = kind.ages ? Times.nanos(sizes.maxAge()) : Long.MAX_VALUE;
        low = Math.max(0, count - 1 - (int) (count * sizes.lowWater()));
    }

    /** Takes an identifier and returns its position, or -1 if none can be used. */
    int take() {
        if (next.getPlain() >= count || !isFresh()) {
            return -1;
        }
        int at = next.getAndIncrement();
        return at < count ? at : -1;
    }

    /** Whether the caller that took this position starts the next fetch. */
    boolean isLow(int at) {
        return at == low;
    }

    boolean isUsable() {
        return left() > 0 && isFresh();
    }

    int left() {
        return Math.max(0, count - next.get());
    }

    int count() {
        return count;
    }

    private boolean isFresh() {
        return maxAge == Long.MAX_VALUE || asked.isWithin(maxAge);
    }

    /** Reads an identifier as the type of a source. */
    interface Reader<T> {
        T read(Block block, int at);
    }

    UUID uuid(int at) {
        return new UUID((long) LONG.get(data, at * 16), (long) LONG.get(data, at * 16 + 8));
    }

    String text(int at) {
        return texts.get(at);
    }

    BigInteger number(int at) {
        return new BigInteger(1, data, at * width, width);
    }

    /** A number of up to 63 bits. */
    long signed(int at) {
        long value = unsigned(at);
        if (value < 0) {
            throw new KentException.Unusable(
                    Long.toUnsignedString(value) + " is larger than the largest long");
        }
        return value;
    }

    /** A number of up to 64 bits, as a long with the same bits. */
    long unsigned(int at) {
        if (width == 8) {
            return (long) LONG.get(data, at * 8);
        }
        long value = 0;
        for (int i = at * width; i < (at + 1) * width; i++) {
            if (value >>> 56 != 0) {
                throw new KentException.Unusable(number(at) + " has more than 64 bits");
            }
            value = (value << 8) | (data[i] & 0xff);
        }
        return value;
    }
}
