package kent.client;

import java.time.Duration;

/** Points in time and durations, in nanoseconds of {@link System#nanoTime}. */
final class Times {
    /**
     * A duration that is longer than any process runs, but small enough to add to a point in time.
     */
    private static final long MAX = Long.MAX_VALUE / 4;

    private Times() {}

    static long nanos(Duration duration) {
        try {
            return Math.min(duration.toNanos(), MAX);
        } catch (ArithmeticException tooLong) {
            return duration.isNegative() ? 0 : MAX;
        }
    }

    /** The deadline of a timeout that starts now. */
    static long deadline(Duration timeout) {
        return System.nanoTime() + Math.max(0, nanos(timeout));
    }

    /** The nanoseconds until a point in time: negative if it has passed. */
    static long left(long deadline) {
        return deadline - System.nanoTime();
    }

    /** The later of two points in time. */
    static long later(long one, long other) {
        return one - other > 0 ? one : other;
    }

    /**
     * A moment on two clocks. On Linux, nanoTime stops while the machine is suspended, and the only
     * clock of Java that continues is the time of day, which can be set.
     */
    record Moment(long nanos, long millis) {
        static Moment now() {
            return new Moment(System.nanoTime(), System.currentTimeMillis());
        }

        /**
         * Whether at most this time has passed on both clocks. If the time of day is set, a moment
         * can look too old. Identifiers that are then dropped only leave a gap.
         */
        boolean isWithin(long maxNanos) {
            return System.nanoTime() - nanos <= maxNanos
                    && Math.abs(System.currentTimeMillis() - millis) <= maxNanos / 1_000_000 + 1;
        }
    }
}
