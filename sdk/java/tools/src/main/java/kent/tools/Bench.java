package kent.tools;

import java.util.UUID;
import java.util.function.Supplier;
import kent.client.Client;

/**
 * Measures {@code next} of a source of UUIDs against {@link UUID#randomUUID}, in turns, at the
 * daemon that KENT_ENDPOINT names. Prints one line of JSON per round.
 */
public final class Bench {
    private static final int CALLS = 1_000_000;
    private static final int ROUNDS = 10;

    private Bench() {}

    public static void main(String[] arguments) {
        String endpoint = System.getenv().getOrDefault("KENT_ENDPOINT", "127.0.0.1:7600");
        try (Client client = Client.connect(endpoint)) {
            Supplier<UUID> kent = client.uuidV7();
            for (int round = 0; round < ROUNDS; round++) {
                double ours = nanoseconds(kent);
                double own = nanoseconds(UUID::randomUUID);
                System.out.printf(
                        "{\"kent_ns\": %.1f, \"own_ns\": %.1f, \"calls\": %d}%n", ours, own, CALLS);
            }
        }
    }

    private static double nanoseconds(Supplier<UUID> source) {
        long began = System.nanoTime();
        long sum = 0;
        for (int i = 0; i < CALLS; i++) {
            sum += source.get().getLeastSignificantBits();
        }
        double each = (System.nanoTime() - began) / (double) CALLS;
        if (sum == 0) {
            // Never reached, but it keeps the compiler from removing the calls.
            throw new IllegalStateException("the sum of the identifiers is 0");
        }
        return each;
    }
}
