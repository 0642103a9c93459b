package kent.tools;

import java.util.UUID;
import java.util.function.Supplier;
import kent.client.Client;

/**
 * Compares the time of {@code next} for UUIDs with that of {@link UUID#randomUUID}, in interleaved
 * rounds, using the daemon that KENT_ENDPOINT names. The optional arguments are the number of
 * rounds, and the number of calls in a round. Prints one line of JSON per round.
 */
public final class Bench {
    private Bench() {}

    public static void main(String[] arguments) {
        int rounds = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 10;
        int calls = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 1_000_000;
        String endpoint = System.getenv().getOrDefault("KENT_ENDPOINT", "127.0.0.1:7600");
        try (Client client = Client.connect(endpoint)) {
            Supplier<UUID> kent = client.uuidV7();
            for (int round = 0; round < rounds; round++) {
                double ours = nanoseconds(kent, calls);
                double own = nanoseconds(UUID::randomUUID, calls);
                System.out.printf(
                        "{\"kent_ns\": %.1f, \"own_ns\": %.1f, \"calls\": %d}%n", ours, own, calls);
            }
        }
    }

    private static double nanoseconds(Supplier<UUID> source, int calls) {
        long began = System.nanoTime();
        long sum = 0;
        for (int i = 0; i < calls; i++) {
            sum += source.get().getLeastSignificantBits();
        }
        double each = (System.nanoTime() - began) / (double) calls;
        if (sum == 0) {
            // Never reached, but it keeps the compiler from removing the calls.
            throw new IllegalStateException("the sum of the identifiers is 0");
        }
        return each;
    }
}
