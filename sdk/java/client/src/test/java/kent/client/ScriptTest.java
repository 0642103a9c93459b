package kent.client;

import static io.grpc.Status.Code.FAILED_PRECONDITION;
import static io.grpc.Status.Code.INTERNAL;
import static io.grpc.Status.Code.RESOURCE_EXHAUSTED;
import static io.grpc.Status.Code.UNAUTHENTICATED;
import static io.grpc.Status.Code.UNAVAILABLE;
import static java.util.concurrent.TimeUnit.SECONDS;
import static kent.client.Script.grant;
import static kent.client.Script.granted;
import static kent.client.Script.refused;
import static kent.client.Script.slow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.LongStream;
import kent.client.Script.Answer;
import kent.v1.AllocateResponse;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Tests the client against a scripted daemon. */
@Timeout(60)
class ScriptTest {
    private static Client.Builder builder(Script... scripts) {
        return Client.builder()
                .endpoints(Arrays.stream(scripts).map(Script::address).toList())
                .lowWater(0);
    }

    private static List<Long> numbers(long first, long last) {
        return LongStream.rangeClosed(first, last).boxed().toList();
    }

    /** A grant of numbers that were never granted before. */
    private static Answer fresh() {
        AtomicLong next = new AtomicLong(1);
        return request ->
                grant(request, next.getAndAdd(request.getCount()), 1, (int) request.getCount());
    }

    @Test
    void okTheDelayOfALimitIsWaitedForOnTheSameDaemon() {
        try (Script script =
                        new Script(refused(RESOURCE_EXHAUSTED, "PACE", 300, Map.of()), granted(7));
                Script other = new Script(granted(1));
                Client client = builder(script, other).build()) {
            assertEquals(7, client.regionLong("r").next());
            assertTrue(script.times.get(1) - script.times.get(0) >= 300_000_000);
            assertEquals(List.of(), other.sources());
        }
    }

    @Test
    void errALongerLimitThanTheTimeoutIsToldAtOnce() {
        try (Script script = new Script(refused(RESOURCE_EXHAUSTED, "LIMIT", 60_500, Map.of()));
                Client client = builder(script).build()) {
            var error = assertThrows(KentException.Limited.class, () -> client.region("r").next());
            assertEquals(Optional.of(Duration.ofMillis(60_500)), error.retryAfter());
        }
    }

    @Test
    void errALimitIsToldWhenTheTimeoutOfTheCallerEndsFirst() {
        try (Script script = new Script(refused(RESOURCE_EXHAUSTED, "LIMIT", 5_000, Map.of()));
                Client client = builder(script).build()) {
            var source = client.region("r");
            Duration timeout = Duration.ofMillis(200);
            assertThrows(KentException.Limited.class, () -> source.next(timeout));
            var failed =
                    assertThrows(ExecutionException.class, () -> source.nextAsync(timeout).get());
            assertInstanceOf(KentException.Limited.class, failed.getCause());
        }
    }

    @Test
    void errAFullRegionIsNotAskedAgain() {
        try (Script script = new Script(refused(RESOURCE_EXHAUSTED, "FULL"));
                Client client = builder(script).build()) {
            var error = assertThrows(KentException.Refused.class, () -> client.region("r").next());
            assertEquals("FULL", error.reason());
            assertEquals("scripted", error.description());
            assertEquals(List.of("source"), error.fields());
            assertEquals(1, script.requests.size());
            // The error has the stack trace of the caller.
            assertTrue(
                    Arrays.stream(error.getStackTrace())
                            .anyMatch(
                                    frame ->
                                            frame.getClassName()
                                                    .equals(ScriptTest.class.getName())));
        }
    }

    @Test
    void okAnUnavailableDaemonHandsOverToTheNext() {
        try (Script script = new Script(refused(UNAVAILABLE, "STORE"));
                Script other = new Script(granted(1));
                Client client = builder(script, other).build()) {
            assertEquals(1, client.regionLong("r").next());
        }
    }

    @Test
    void okInternalWithoutAReasonIsABrokenConnection() {
        Answer broken =
                request -> {
                    throw io.grpc.Status.INTERNAL.asRuntimeException();
                };
        try (Script script = new Script(broken, granted(3));
                Client client = builder(script).build()) {
            assertEquals(3, client.regionLong("r").next());
        }
        try (Script script = new Script(refused(INTERNAL, "BUG"));
                Client client = builder(script).build()) {
            assertThrows(KentException.Refused.class, () -> client.region("r").next());
        }
    }

    @Test
    void okADaemonThatComesBackIsUsedAtOnce() throws Exception {
        int port = Daemon.freePort();
        try (Client client = Client.connect("127.0.0.1:" + port)) {
            assertThrows(
                    KentException.Unavailable.class,
                    () -> client.region("r").next(Duration.ofMillis(300)));
            CompletableFuture<Long> waiting = client.regionLong("r").nextAsync();
            Thread.sleep(3000);
            try (Script script = new Script(port, granted(5))) {
                assertEquals(5, waiting.get(3, SECONDS));
                assertEquals(1, script.requests.size());
            }
        }
    }

    @Test
    void okTheHeirOfAClosedRegionIsFollowedIfToldTo() {
        Answer closed = refused(FAILED_PRECONDITION, "CLOSED", -1, Map.of("heir", "region:r-zero"));
        try (Script script = new Script(closed, granted(5));
                Client client = builder(script).followHeirs(true).build()) {
            assertEquals(5, client.regionLong("r").next());
            assertEquals(List.of("region:r", "region:r-zero"), script.sources());
        }
        try (Script script = new Script(closed);
                Client client = builder(script).build()) {
            var error = assertThrows(KentException.Refused.class, () -> client.region("r").next());
            assertEquals(Optional.of("region:r-zero"), error.heir());
        }
        try (Script script = new Script(closed);
                Client client = builder(script).followHeirs(true).build()) {
            assertThrows(KentException.Unusable.class, () -> client.region("r").next());
            assertThrows(KentException.Refused.class, () -> client.region("q").fetch(1, "id"));
        }
    }

    @Test
    void okAnOlderBlockIsRejected() {
        try (Script script = new Script(granted(1, 5), granted(50, 4), granted(90, 5));
                Client client = builder(script).build()) {
            var source = client.regionLong("r");
            assertEquals(numbers(1, 2), source.take(2));
            assertEquals(numbers(90, 91), source.take(2));
        }
    }

    @Test
    void errManyOlderBlocksInARowAreFenced() {
        try (Script script = new Script(granted(1, 5), granted(50, 4));
                Client client = builder(script).requestTimeout(Duration.ofSeconds(40)).build()) {
            var source = client.regionLong("r");
            source.take(1);
            assertThrows(KentException.Fenced.class, () -> source.take(1));
        }
    }

    @Test
    void okAnOlderBlockOfARequestIdIsTheBlockOfItsFirstGrant() {
        try (Script script = new Script(granted(1, 5), granted(50, 4));
                Client client = builder(script).build()) {
            var source = client.regionLong("r");
            source.take(1);
            assertEquals(numbers(50, 52), source.fetch(3, "id"));
            assertEquals("id", script.requests.get(1).getRequestId());
        }
    }

    @Test
    void errAReplyWithTooManyIdentifiersOrNoneIsNotUsed() {
        Answer many = request -> grant(request, 1, 1, 1001);
        for (Answer answer : List.of(many, r -> AllocateResponse.getDefaultInstance())) {
            try (Script script = new Script(answer);
                    Client client = builder(script).build()) {
                assertThrows(KentException.Unusable.class, () -> client.region("r").next());
            }
        }
    }

    @Test
    void okMoreThanAReplyMayHaveIsTakenInParts() {
        try (Script script = new Script(fresh());
                Client client = builder(script).blockSizeMax(200_000).build()) {
            Set<String> texts = new HashSet<>(client.xid().take(25_000));
            assertEquals(25_000, texts.size());
            assertEquals(3, script.requests.size());
            assertEquals(300_000, client.region("r").take(300_000).size());
            assertEquals(5, script.requests.size());
            assertEquals(List.of(), client.region("r").take(0));
        }
    }

    @Test
    void okASlowDaemonIsHiddenByTheNextBlock() throws Exception {
        Answer grants = fresh();
        try (Script script = new Script(grants, slow(300, grants));
                Client client =
                        builder(script).lowWater(0.5).blockSize(10).blockSizeMax(10).build()) {
            var source = client.regionLong("r");
            for (long i = 1; i <= 5; i++) {
                assertEquals(i, source.next());
            }
            while (script.requests.size() < 2) {
                Thread.sleep(1);
            }
            assertEquals(5, source.inHand());
            while (source.inHand() < 15) {
                Thread.sleep(1);
            }
            for (long i = 6; i <= 15; i++) {
                assertEquals(Optional.of(i), source.tryNext());
            }
        }
    }

    @Test
    void okTryNextDoesNotWaitButFetches() throws Exception {
        try (Script script = new Script(slow(100, granted(9)));
                Client client = builder(script).build()) {
            var source = client.regionLong("r");
            assertEquals(Optional.empty(), source.tryNext());
            while (source.inHand() == 0) {
                Thread.sleep(1);
            }
            assertEquals(Optional.of(9L), source.tryNext());
        }
    }

    @Test
    void okIdentifiersThatCarryTheTimeExpire() throws Exception {
        try (Script script = new Script(granted(1), granted(5000));
                Client client = builder(script).maxAge(Duration.ofMillis(200)).build()) {
            assertEquals(1, client.uuidV7().next().getLeastSignificantBits());
            Thread.sleep(300);
            assertEquals(5000, client.uuidV7().next().getLeastSignificantBits());
        }
        try (Script script = new Script(granted(1), granted(5000));
                Client client = builder(script).maxAge(Duration.ofMillis(200)).build()) {
            assertEquals(1, client.regionLong("r").next());
            Thread.sleep(300);
            assertEquals(2, client.regionLong("r").next());
        }
    }

    @Test
    void okManyThreadsAndFuturesShareOneHandle() throws Exception {
        try (Script script = new Script(fresh());
                Client client = builder(script).blockSize(7).blockSizeMax(500).build()) {
            var source = client.regionLong("r");
            var pool = Executors.newFixedThreadPool(32);
            List<Future<List<Long>>> parts = new ArrayList<>();
            List<CompletableFuture<Long>> futures = new ArrayList<>();
            for (int i = 0; i < 32; i++) {
                parts.add(
                        pool.submit(
                                () -> {
                                    List<Long> part = new ArrayList<>();
                                    for (int j = 0; j < 500; j++) {
                                        part.add(source.next());
                                    }
                                    return part;
                                }));
            }
            for (int i = 0; i < 5000; i++) {
                futures.add(source.nextAsync());
            }
            Set<Long> all = new HashSet<>();
            for (var part : parts) {
                List<Long> ids = part.get();
                assertTrue(all.addAll(ids));
                assertEquals(ids.stream().sorted().toList(), ids);
            }
            for (var future : futures) {
                all.add(future.get());
            }
            pool.shutdown();
            assertEquals(32 * 500 + 5000, all.size());
        }
    }

    @SuppressWarnings("try") // It closes a client twice.
    @Test
    void errCloseEndsCallsInFlight() throws Exception {
        try (Script script = new Script(slow(1500, granted(1)));
                Client client = builder(script).build()) {
            var source = client.region("r");
            List<CompletableFuture<?>> calls =
                    List.of(
                            source.nextAsync(),
                            source.takeAsync(5),
                            source.fetchAsync(1, "id"),
                            CompletableFuture.supplyAsync(source),
                            client.xid().nextAsync());
            Thread.sleep(200);
            client.close();
            for (CompletableFuture<?> call : calls) {
                var failed = assertThrows(ExecutionException.class, () -> call.get(1, SECONDS));
                assertInstanceOf(KentException.Closed.class, failed.getCause());
            }
            assertThrows(KentException.Closed.class, source::next);
            assertThrows(KentException.Closed.class, source::tryNext);
            assertThrows(KentException.Closed.class, () -> source.take(1));
            assertThrows(KentException.Closed.class, client::regions);
            client.close();
        }
        // Closing also ends a call that waits between two attempts.
        try (Client client = Client.connect("127.0.0.1:" + Daemon.freePort())) {
            var waiting = client.xid().nextAsync();
            Thread.sleep(500);
            client.close();
            assertThrows(ExecutionException.class, () -> waiting.get(1, SECONDS));
        }
    }

    @Test
    void errAnInterruptedThreadStopsWaiting() throws Exception {
        try (Script script = new Script(slow(1500, granted(1)));
                Client client = builder(script).build()) {
            var flag = new CompletableFuture<Boolean>();
            Thread thread =
                    new Thread(
                            () -> {
                                assertThrows(
                                        KentException.Interrupted.class, client.region("r")::next);
                                flag.complete(Thread.currentThread().isInterrupted());
                            });
            thread.start();
            Thread.sleep(100);
            thread.interrupt();
            assertTrue(flag.get(1, SECONDS));
        }
    }

    @Test
    void errADeadlineOfTheCallerEndsTheWait() {
        try (Script script = new Script(slow(1500, granted(1)));
                Client client = builder(script).build()) {
            var source = client.region("r");
            Duration timeout = Duration.ofMillis(100);
            assertThrows(KentException.Unavailable.class, () -> source.next(timeout));
            assertThrows(KentException.Unavailable.class, () -> source.take(1, timeout));
            assertThrows(KentException.Unavailable.class, () -> source.fetch(1, "id", timeout));
            var future = source.nextAsync(timeout);
            var failed = assertThrows(ExecutionException.class, () -> future.get(1, SECONDS));
            assertInstanceOf(KentException.Unavailable.class, failed.getCause());
        }
    }

    @Test
    void okALongerTimeoutOutlivesTheFetchOfOthers() throws Exception {
        int port = Daemon.freePort();
        try (Client client =
                Client.builder()
                        .endpoints("127.0.0.1:" + port)
                        .requestTimeout(Duration.ofMillis(300))
                        .build()) {
            var source = client.regionLong("r");
            assertFalse(source.tryNext().isPresent());
            var waiting = source.nextAsync(Duration.ofSeconds(20));
            Thread.sleep(1000);
            try (Script script = new Script(port, granted(5))) {
                assertEquals(5, waiting.get(5, SECONDS));
                assertFalse(script.requests.isEmpty());
            }
        }
    }

    @Test
    void okATokenThatExpiresIsReadAgain(@TempDir Path directory) throws Exception {
        Path file = directory.resolve("token");
        Files.writeString(file, "kent_a_ONE");
        Answer expired =
                request -> {
                    Files.writeString(file, "kent_b_TWO");
                    return refused(UNAUTHENTICATED, "").to(request);
                };
        try (Script script = new Script(expired, granted(1), refused(UNAUTHENTICATED, ""));
                Client client = builder(script).tokenFile(file).build()) {
            assertEquals(1, client.regionLong("r").next());
            assertEquals(List.of("Bearer kent_a_ONE", "Bearer kent_b_TWO"), script.tokens);
            assertThrows(KentException.Refused.class, () -> client.xid().next());
            assertEquals(3, script.requests.size());
        }
    }
}
