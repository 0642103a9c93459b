package kent.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import java.math.BigInteger;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.function.UnaryOperator;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import kent.v1.AllocateResponse;
import kent.v1.PackedIdentifiers;
import kent.v1.TextIdentifiers;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Tests the parts that make no calls. */
class UnitsTest {
    private static final Path POM = Path.of("pom.xml");
    private static final Sizes SIZES = new Sizes(100, 350, 0.5, Duration.ofSeconds(10));

    private static AllocateResponse packed(int width, int... bytes) {
        byte[] data = new byte[bytes.length];
        for (int i = 0; i < bytes.length; i++) {
            data[i] = (byte) bytes[i];
        }
        return AllocateResponse.newBuilder()
                .setPacked(
                        PackedIdentifiers.newBuilder()
                                .setWidth(width)
                                .setData(ByteString.copyFrom(data)))
                .build();
    }

    private static Block block(Kind kind, int width, int... bytes) {
        return Block.of(kind, packed(width, bytes), 100, Times.Moment.now());
    }

    @Test
    void okTheHighestTokenOfEachSubjectCounts() {
        Fences fences = new Fences();
        assertTrue(fences.admit("a", 1, 5));
        assertFalse(fences.admit("a", 1, 4));
        assertTrue(fences.admit("a", 1, 6));
        assertTrue(fences.admit("a", 2, 1));
        assertTrue(fences.admit("b", 1, 1));
        assertFalse(fences.admit("a", 1, 5));
        assertTrue(fences.admit("s", 0, 0));
        assertTrue(fences.admit("a", 1, -1), "tokens are unsigned");
        assertFalse(fences.admit("a", 1, 7));
        assertEquals("", Kind.of("uuidv7").scope("uuidv7"));
        assertEquals("", Kind.of("xid").scope("xid"));
        assertEquals("region:a", Kind.of("region:a").scope("region:a"));
    }

    @Test
    void okBlocksGrowWhileTheyLastLessThanASecond() {
        Stock stock = new Stock(Kind.NUMBER, SIZES);
        assertEquals(
                List.of(100, 200, 350, 350),
                IntStream.range(0, 4).mapToObj(i -> stock.nextSize()).toList());
        stock.askedLast = System.nanoTime() - 11_000_000_000L;
        assertEquals(175, stock.nextSize());
        assertEquals(10_000, new Stock(Kind.TEXT_OF_SLOT, largest()).sizeMax);
        assertEquals(200_000, new Stock(Kind.NUMBER, largest()).sizeMax);
    }

    private static Sizes largest() {
        return new Sizes(200_000, 200_000, 0.5, Duration.ofSeconds(1));
    }

    @Test
    void okIdentifiersThatCarryTheTimeExpireOnEitherClock() {
        Times.Moment now = Times.Moment.now();
        Times.Moment young = new Times.Moment(now.nanos() - 9_000_000_000L, now.millis() - 9_000);
        Times.Moment old = new Times.Moment(now.nanos() - 10_100_000_000L, now.millis());
        // The monotonic clock did not advance.
        Times.Moment suspended = new Times.Moment(now.nanos(), now.millis() - 10_100);
        Times.Moment setBack = new Times.Moment(now.nanos(), now.millis() + 3_600_000);
        AllocateResponse reply = packed(16, new int[32]);
        for (Times.Moment asked : List.of(young, old, suspended, setBack)) {
            for (Kind kind : List.of(Kind.UUID_OF_SLOT, Kind.UUID_OF_SERIES)) {
                Stock stock = new Stock(kind, SIZES);
                stock.add(Block.of(kind, reply, 2, asked));
                boolean left = asked.equals(young) || kind == Kind.UUID_OF_SERIES;
                assertEquals(left, stock.advance(), kind + " " + asked);
                assertEquals(left ? 0 : -1, stock.block.take());
                stock.drop();
                assertFalse(stock.advance());
                assertEquals(0, stock.inHand());
            }
        }
    }

    @Test
    void okEachIdentifierIsTakenOnceAndOneStartsTheNextFetch() {
        for (double[] row : new double[][] {{0, 9}, {0.5, 4}, {1, 0}, {0.05, 9}}) {
            Block block = block(Kind.NUMBER, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10);
            block.keep(new Sizes(1, 1, row[0], Duration.ofSeconds(1)));
            for (int i = 0; i < 10; i++) {
                int at = block.take();
                assertEquals(i, at);
                assertEquals(i == (int) row[1], block.isLow(at), row[0] + " at " + i);
                assertEquals(BigInteger.valueOf(i + 1), block.number(at));
            }
            assertEquals(-1, block.take());
            assertEquals(0, block.left());
        }
    }

    @Test
    void okNumbersAreNotTruncated() {
        Block large = block(Kind.NUMBER, 8, 0xb4, 0, 0, 0, 0, 0, 0, 1);
        assertEquals(new BigInteger("12970366926827028481"), large.number(0));
        assertEquals("12970366926827028481", Long.toUnsignedString(large.unsigned(0)));
        assertThrows(KentException.Unusable.class, () -> large.signed(0));
        Block small = block(Kind.NUMBER, 3, 1, 0, 2, 0xff, 0xff, 0xff);
        assertEquals(65538, small.signed(0));
        assertEquals((1 << 24) - 1, small.unsigned(1));
        Block wide = block(Kind.NUMBER, 9, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7);
        assertEquals(BigInteger.TWO.pow(64), wide.number(0));
        assertThrows(KentException.Unusable.class, () -> wide.unsigned(0));
        assertEquals(7, wide.signed(1));
        Block uuid =
                block(
                        Kind.UUID_OF_SLOT,
                        16,
                        0xf,
                        1,
                        2,
                        3,
                        4,
                        5,
                        0x76,
                        7,
                        0x88,
                        9,
                        10,
                        11,
                        12,
                        13,
                        14,
                        15);
        assertEquals(UUID.fromString("0f010203-0405-7607-8809-0a0b0c0d0e0f"), uuid.uuid(0));
    }

    @Test
    void errRepliesThatMakeNoSense() {
        AllocateResponse texts =
                AllocateResponse.newBuilder()
                        .setText(TextIdentifiers.newBuilder().addIds("a").addIds("b"))
                        .build();
        Times.Moment now = Times.Moment.now();
        for (Runnable bad :
                List.<Runnable>of(
                        () -> Block.of(Kind.NUMBER, AllocateResponse.getDefaultInstance(), 1, now),
                        () -> Block.of(Kind.NUMBER, packed(3, 1, 2), 1, now),
                        () -> Block.of(Kind.NUMBER, packed(1), 1, now),
                        () -> Block.of(Kind.NUMBER, packed(1, 1, 2), 1, now),
                        () -> Block.of(Kind.UUID_OF_SLOT, packed(1, 1), 1, now),
                        () -> Block.of(Kind.NUMBER, texts, 2, now),
                        () -> Block.of(Kind.TEXT_OF_SLOT, texts, 1, now),
                        () -> Block.of(Kind.TEXT_OF_SLOT, packed(1, 1), 1, now))) {
            assertThrows(KentException.Unusable.class, bad::run);
        }
        assertEquals("b", Block.of(Kind.TEXT_OF_SLOT, texts, 2, now).text(1));
    }

    @Test
    void okAttemptsUseTheOtherEndpointsFirstWithoutAPause() {
        Endpoints endpoints =
                new Endpoints(
                        Stream.of("a:1", "b:1").map(text -> Endpoint.parse(text, false)).toList());
        Attempts attempts =
                new Attempts(
                        endpoints,
                        new Token(null, null),
                        1,
                        Times.deadline(Duration.ofSeconds(Long.MAX_VALUE)));
        assertEquals(0, attempts.backoff());
        List<Double> pauses =
                IntStream.range(0, 9).mapToObj(i -> attempts.backoff() / 1e9).toList();
        assertTrue(0.02 <= pauses.get(0) && pauses.get(0) <= 0.04, pauses.toString());
        assertTrue(1 <= pauses.get(8) && pauses.get(8) <= 2, pauses.toString());
        assertEquals(0, endpoints.current());
        endpoints.leave(0);
        endpoints.leave(0);
        assertEquals(1, endpoints.current());
        endpoints.leave(1);
        assertEquals(0, endpoints.current());
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "",
                "a",
                "http://",
                "ftp://a:1",
                "a:99999",
                ":7600",
                "a b:1",
                "unix:",
                "a:0"
            })
    void errEndpoints(String text) {
        var error = assertThrows(KentException.Config.class, () -> Client.connect(text));
        assertTrue(error.getMessage().contains("HOST:PORT"), error.getMessage());
    }

    @Test
    void okEndpoints() {
        for (String[] row :
                new String[][] {
                    {"127.0.0.1:7600", "dns:///127.0.0.1:7600"},
                    {"http://[::1]:7600/", "dns:///[::1]:7600"},
                    {"https://kent.example:80", "dns:///kent.example:80"},
                    {"unix:/run/kent.sock", "unix:/run/kent.sock"}
                }) {
            assertEquals(row[1], Endpoint.parse(row[0], false).target());
        }
    }

    @Test
    void okAnEndpointWithoutASchemeUsesTlsIfThereIsACaOrACertificate() {
        for (boolean certified : List.of(true, false)) {
            assertEquals(certified, Endpoint.parse("kent.example:7600", certified).tls());
            assertTrue(Endpoint.parse("https://kent.example:7600", certified).tls());
            assertFalse(Endpoint.parse("http://kent.example:7600", certified).tls());
            assertFalse(Endpoint.parse("unix:/run/kent.sock", certified).tls());
        }
    }

    static Stream<Arguments> errSettings() {
        return Stream.of(
                setting(b -> b.blockSize(0), "blockSize must be 1 to"),
                setting(b -> b.blockSize(10).blockSizeMax(9), "blockSize must be 1 to"),
                setting(b -> b.blockSizeMax(200_001), "blockSizeMax must be at most 200000"),
                setting(b -> b.lowWater(Double.NaN), "lowWater must be 0 to 1"),
                setting(b -> b.maxAge(Duration.ZERO), "maxAge must be more than 0"),
                setting(b -> b.attemptTimeout(Duration.ZERO), "attemptTimeout must be more than 0"),
                setting(b -> b.requestTimeout(Duration.ofMillis(-1)), "requestTimeout must be"),
                setting(b -> b.token("SECRET"), "a token is kent_ID_SECRET"),
                setting(b -> b.tokenFile(Path.of("/nonexistent/token")), "NoSuchFile"),
                setting(b -> b.token("kent_a_b").tokenFile(Path.of("x")), "left out if"),
                setting(b -> b.ca(POM), "cannot read them"),
                setting(b -> b.endpoints("a:1", "https://b:1").ca(POM), "cannot read them"),
                setting(b -> b.endpoints("http://a:1").ca(POM), "left out without https://"),
                setting(b -> b.endpoints("unix:/s").ca(POM), "left out without https://"),
                setting(
                        b -> b.endpoints("http://a:1").certificate(POM, POM),
                        "left out without https://"),
                setting(b -> b.endpoints("a:1", "http://b:1").ca(POM), "all with https://"),
                setting(b -> b.ca(Path.of("/nonexistent/ca")), "ca: "),
                setting(b -> b.endpoints("https://a:1").ca(POM), "cannot read them"),
                setting(b -> b.endpoints("a:1", "https://b:1"), "all with https://"));
    }

    private static Arguments setting(UnaryOperator<Client.Builder> change, String message) {
        return Arguments.of(change, message);
    }

    @ParameterizedTest
    @MethodSource
    void errSettings(UnaryOperator<Client.Builder> change, String message) {
        Client.Builder builder = change.apply(Client.builder());
        var error = assertThrows(KentException.Config.class, builder::build);
        assertTrue(error.getMessage().contains(message), error.getMessage());
    }

    @Test
    void errATokenLeavesTheMachineOnlyUnderTls() {
        for (String endpoint :
                List.of("10.0.0.7:7600", "localhost.example:7600", "127.0.0.1.example:1")) {
            Client.Builder builder = Client.builder().endpoints(endpoint).token("kent_a_SECRET");
            var error = assertThrows(KentException.Config.class, builder::build);
            assertTrue(error.getMessage().contains("another machine"), error.getMessage());
            builder.allowPlainToken(true).build().close();
        }
        for (String endpoint :
                List.of(
                        "localhost:1",
                        "[::1]:1",
                        "127.0.0.2:1",
                        "https://kent.example:1",
                        "unix:/s")) {
            Client.builder().endpoints(endpoint).token("kent_a_SECRET").build().close();
        }
    }

    @Test
    void okATokenFileIsReadAgain(@TempDir Path directory) throws Exception {
        Path file = directory.resolve("token");
        Files.writeString(file, "kent_a_ONE\n");
        Token token = new Token(null, file);
        assertEquals("Bearer kent_a_ONE", token.header());
        Files.writeString(file, "kent_b_TWO");
        assertEquals("Bearer kent_a_ONE", token.header());
        assertEquals("Bearer kent_b_TWO", token.refresh());
        Files.writeString(file, "half of a tok en");
        assertEquals("Bearer kent_b_TWO", token.refresh());
    }

    @Test
    void okASourceIsMadeOnceAndHasItsType() {
        try (Client client = Client.connect()) {
            assertSame(client.uuidV7(), client.uuidV7());
            assertSame(client.uuidV7(), client.source("uuidv7"));
            assertSame(client.region("a"), client.source("region:a", BigInteger.class));
            assertSame(client.region("a"), client.region("a", "default"));
            assertSame(client.regionLong("a"), client.source("region:a", Long.class));
            assertNotEquals(client.region("a"), client.region("a", "b"));
            assertInstanceOf(Source.class, client.source("serial:GBP", UUID.class));
            for (Class<?> wrong : List.of(String.class, Long.class, Object.class)) {
                assertThrows(KentException.Config.class, () -> client.source("uuidv7", wrong));
            }
            assertEquals("Source[xid]", client.xid().toString());
        }
    }

    @Test
    void okAnErrorKeepsItsTypeForEachCaller() {
        var details =
                new KentException.Details(
                        io.grpc.Status.Code.NOT_FOUND,
                        "m",
                        "r",
                        java.util.Map.of(),
                        List.of(),
                        null);
        for (KentException error :
                List.of(
                        new KentException.Config("m"),
                        new KentException.Rpc(details, null),
                        new KentException.Refused(details, null),
                        new KentException.Limited(details, null),
                        new KentException.Unavailable(
                                java.util.Map.of("a", new KentException.Closed())),
                        new KentException.Fenced("m", null),
                        new KentException.Unusable("m"),
                        new KentException.Closed(),
                        new KentException.Interrupted(new InterruptedException()))) {
            KentException again = error.again();
            assertSame(error.getClass(), again.getClass());
            assertSame(error, again.getCause());
            assertEquals(error.getMessage(), again.getMessage());
            assertEquals(error.isRetryable(), again.isRetryable());
        }
    }
}
