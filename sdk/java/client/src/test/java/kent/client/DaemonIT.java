package kent.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Status;
import java.math.BigInteger;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import kent.v1.GetRegionRequest;
import kent.v1.RegionsGrpc;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Tests the client against a real daemon. */
@Timeout(120)
class DaemonIT {
    @TempDir Path directory;

    private static Client.Builder builder(Daemon daemon) {
        return Client.builder().endpoints(daemon.address());
    }

    private static void order(Daemon daemon, String region) {
        daemon.kent("region", "create", region, "--prefix", "101101", "--suffix", "40");
    }

    @Test
    void okEachSourceHasItsType() {
        try (Daemon daemon = new Daemon(directory);
                Client client = Client.connect(daemon.address())) {
            order(daemon, "orders");
            List<Source<UUID>> uuids = List.of(client.uuidV7(), client.uuidV6());
            for (int i = 0; i < 2; i++) {
                UUID first = uuids.get(i).next();
                UUID second = uuids.get(i).next();
                assertEquals(List.of(7, 6).get(i), first.version());
                assertEquals(2, first.variant());
                assertTrue(first.toString().compareTo(second.toString()) < 0);
            }
            BigInteger number = client.region("orders").next();
            assertEquals(64, number.bitLength());
            assertEquals(
                    number.add(BigInteger.ONE).toString(),
                    Long.toUnsignedString(client.regionUnsignedLong("orders").next()));
            assertThrows(KentException.Unusable.class, () -> client.regionLong("orders").next());
            assertEquals(11, client.xid().next().length());
            assertEquals(11, client.source("uid11-fullrand", String.class).next().length());
            assertNotNull(client.source("serial:GBP", UUID.class).next());
            assertEquals(
                    "orders",
                    client.regions()
                            .getRegion(
                                    GetRegionRequest.newBuilder().setName(nameOf(client)).build())
                            .getName()
                            .replaceFirst(".*/", ""));
        }
    }

    private static String nameOf(Client client) {
        assertNotNull(RegionsGrpc.newFutureStub(client.channel()));
        return "spaces/default/regions/orders";
    }

    /** Kills and restarts the daemon repeatedly, for KENT_SOAK_SECONDS. */
    @Test
    @Timeout(3600)
    void okThreadsGoOnAfterEachKillAndNothingComesTwice() throws Exception {
        int seconds = Integer.parseInt(System.getenv().getOrDefault("KENT_SOAK_SECONDS", "6"));
        int[] counts;
        Set<Object> all = ConcurrentHashMap.newKeySet();
        int kills = 0;
        try (Daemon daemon = new Daemon(directory);
                Client client =
                        builder(daemon)
                                .blockSize(50)
                                .blockSizeMax(200)
                                .requestTimeout(Duration.ofSeconds(60))
                                .build()) {
            daemon.kent("region", "create", "orders", "--suffix", "40");
            List<Source<?>> sources =
                    List.of(client.uuidV7(), client.region("orders"), client.xid());
            AtomicBoolean ended = new AtomicBoolean();
            AtomicIntegerArray taken = new AtomicIntegerArray(8);
            var pool = Executors.newFixedThreadPool(taken.length());
            List<Future<?>> threads = new ArrayList<>();
            for (int i = 0; i < taken.length(); i++) {
                int thread = i;
                threads.add(
                        pool.submit(
                                () -> {
                                    while (!ended.get()) {
                                        for (Source<?> source : sources) {
                                            List<Object> ids = new ArrayList<>(source.take(2));
                                            ids.add(source.next());
                                            ids.add(source.nextAsync().get());
                                            for (Object id : ids) {
                                                assertTrue(all.add(id), () -> id + " came twice");
                                                taken.incrementAndGet(thread);
                                            }
                                        }
                                        Thread.sleep(2);
                                    }
                                    return null;
                                }));
            }
            long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
            while (System.nanoTime() < until) {
                Thread.sleep(ThreadLocalRandom.current().nextInt(500, 1500));
                daemon.kill();
                kills++;
                Thread.sleep(300);
                daemon.start();
                int[] before = IntStream.range(0, taken.length()).map(taken::get).toArray();
                for (int i = 0; i < taken.length(); i++) {
                    // This is more than all threads together can take from prefetched blocks.
                    while (taken.get(i) < before[i] + 500 && !threads.get(i).isDone()) {
                        Thread.sleep(10);
                    }
                }
            }
            ended.set(true);
            for (var thread : threads) {
                thread.get();
            }
            pool.shutdown();
            counts = IntStream.range(0, taken.length()).map(taken::get).toArray();
        }
        assertEquals(IntStream.of(counts).sum(), all.size());
        System.out.printf(
                "soak: %d s, %d kills, %d identifiers, at least %d by each thread%n",
                seconds, kills, all.size(), IntStream.of(counts).min().getAsInt());
    }

    @Test
    void okAnotherEndpointTakesOver() {
        try (Daemon daemon = new Daemon(directory);
                Client client =
                        Client.connect("127.0.0.1:" + Daemon.freePort(), daemon.address())) {
            assertEquals(7, client.uuidV7().next(Duration.ofSeconds(5)).version());
        }
    }

    @Test
    void okARequestIdIsGrantedOnce() throws Exception {
        try (Daemon daemon = new Daemon(directory);
                Client client = Client.connect(daemon.address())) {
            daemon.kent("region", "create", "invoices", "--suffix", "40");
            daemon.kent("region", "set", "invoices", "--strict", "--yes");
            var source = client.region("invoices");
            String id = client.uuidV7().next().toString();
            List<BigInteger> first = source.fetch(3, id);
            assertEquals(3, first.size());
            assertEquals(first, source.fetchAsync(3, id).get());
            assertNotEquals(first, source.fetch(3, client.uuidV7().next().toString()));
            daemon.kill();
            daemon.start();
            assertEquals(first, source.fetch(3, id));
        }
    }

    @Test
    void errRefusalsHaveTheirReason() {
        try (Daemon daemon = new Daemon(directory);
                Client client = Client.connect(daemon.address())) {
            daemon.kent("region", "create", "orders", "--suffix", "40");
            daemon.kent("region", "seal", "orders", "--yes");
            for (String[] row :
                    new String[][] {
                        {"region:orders", "SEALED"}, {"region:absent", "NO_SUCH_REGION"}
                    }) {
                var error =
                        assertThrows(
                                KentException.Refused.class, () -> client.source(row[0]).next());
                assertEquals(row[1], error.reason());
                assertFalse(error.description().isEmpty());
            }
            var bad = assertThrows(KentException.Refused.class, () -> client.source("x!").next());
            assertEquals(Status.Code.INVALID_ARGUMENT, bad.code());
            assertEquals(List.of("source"), bad.fields());
        }
    }

    @Test
    void okTheEdgesOfBlocks() {
        try (Daemon daemon = new Daemon(directory);
                Client client = builder(daemon).blockSize(1).blockSizeMax(1).lowWater(1).build();
                Client large = builder(daemon).blockSizeMax(200_000).build()) {
            daemon.kent("region", "create", "orders", "--suffix", "40");
            Set<Object> ids = new HashSet<>();
            for (int i = 0; i < 100; i++) {
                assertTrue(ids.add(client.region("orders").next()));
                assertTrue(ids.add(client.uuidV7().next()));
            }
            assertTrue(ids.addAll(large.region("orders").take(450_001)));
            assertTrue(ids.addAll(large.xid().take(25_000)));
            assertEquals(200 + 450_001 + 25_000, ids.size());
        }
    }

    @Test
    void okOldIdentifiersAreDropped() throws Exception {
        try (Daemon daemon = new Daemon(directory);
                Client client = builder(daemon).maxAge(Duration.ofMillis(300)).build()) {
            client.uuidV7().next();
            Thread.sleep(600);
            long before = System.currentTimeMillis();
            long time = client.uuidV7().next().getMostSignificantBits() >>> 16;
            assertTrue(time >= before - 600, time + " is old at " + before);
        }
    }

    @Test
    void errWithoutADaemonTheEndpointIsNamed() {
        String address = "127.0.0.1:" + Daemon.freePort();
        try (Client client =
                Client.builder().endpoints(address).requestTimeout(Duration.ofSeconds(2)).build()) {
            var error = assertThrows(KentException.Unavailable.class, () -> client.uuidV7().next());
            assertTrue(error.getMessage().contains(address), error.getMessage());
            assertTrue(error.getMessage().contains("refused"), error.getMessage());
            assertTrue(error.tried().containsKey(address));
            assertTrue(client.uuidV7().tryNext().isEmpty());
        }
    }

    @Test
    void okCloseWithCallsInFlight() throws Exception {
        try (Daemon daemon = new Daemon(directory)) {
            Client client = builder(daemon).blockSize(1).blockSizeMax(1).build();
            List<CompletableFuture<Integer>> loops = new ArrayList<>();
            for (int i = 0; i < 8; i++) {
                loops.add(
                        CompletableFuture.supplyAsync(
                                () -> {
                                    int count = 0;
                                    try {
                                        while (true) {
                                            client.uuidV7().next();
                                            count++;
                                        }
                                    } catch (KentException.Closed closed) {
                                        return count;
                                    }
                                },
                                command -> new Thread(command).start()));
            }
            Thread.sleep(500);
            client.close();
            int sum = 0;
            for (var loop : loops) {
                sum += loop.get(5, TimeUnit.SECONDS);
            }
            assertTrue(sum > 0);
        }
    }

    @Test
    void okATokenFileIsReadAgain() throws Exception {
        try (Daemon daemon = new Daemon(directory, "--auth", "required")) {
            List<String> tokens = new ArrayList<>();
            for (String name : List.of("a", "b")) {
                String made =
                        daemon.kentOverSocket("token", "create", name, "--allow", "allocate:*");
                tokens.add(
                        Pattern.compile("\\s+")
                                .splitAsStream(made)
                                .filter(word -> word.startsWith("kent_"))
                                .findFirst()
                                .orElseThrow());
            }
            Path file = directory.resolve("token");
            Files.writeString(file, tokens.get(0));
            try (Client client =
                    builder(daemon).tokenFile(file).blockSize(1).blockSizeMax(1).build()) {
                assertNotNull(client.uuidV7().next());
                Files.writeString(file, tokens.get(1));
                daemon.kentOverSocket(
                        "token",
                        "revoke",
                        tokens.get(0).replaceFirst("kent_([^_]*)_.*", "$1"),
                        "--yes");
                assertEquals(2, client.uuidV7().take(2).size());
                assertTrue(client.metadata().toString().contains(tokens.get(1)));
            }
            try (Client client = Client.connect(daemon.address())) {
                var error = assertThrows(KentException.Refused.class, () -> client.uuidV7().next());
                assertEquals(Status.Code.UNAUTHENTICATED, error.code());
            }
            // The daemon's own user needs no token on its Unix socket.
            try (Client client = Client.connect(daemon.socket())) {
                assertEquals(7, client.uuidV7().next().version());
            }
        }
    }
}
