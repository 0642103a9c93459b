package kent.tools;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import kent.client.Daemon;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * Tests the example, the adapter for the conformance kit and the benchmark against a real daemon.
 */
@Timeout(120)
class ProgramsIT {
    @TempDir Path directory;

    private static ProcessBuilder java(String main) {
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        String classes = System.getProperty("java.class.path");
        assertTrue(classes.contains(File.pathSeparator));
        return new ProcessBuilder(java, "-cp", classes, main)
                .redirectError(ProcessBuilder.Redirect.INHERIT);
    }

    @Test
    void okTheExampleServesAndEndsCleanly() throws Exception {
        try (Daemon daemon = new Daemon(directory)) {
            int port = Daemon.freePort();
            ProcessBuilder builder = java("orders.Main");
            builder.environment().put("PORT", String.valueOf(port));
            builder.environment().put("KENT_ENDPOINT", daemon.address());
            Process example = builder.start();
            try {
                while (!Daemon.isListening(port)) {
                    assertTrue(example.isAlive());
                    Thread.sleep(20);
                }
                assertEquals("ok", call("GET", port, "/healthz").body());
                assertEquals(405, call("GET", port, "/orders").statusCode());
                var refused = call("POST", port, "/orders");
                assertEquals(503, refused.statusCode());
                assertTrue(parse(refused.body()).get("error").getAsString().contains("orders"));
                daemon.kent("region", "create", "orders", "--prefix", "101101", "--suffix", "40");
                JsonObject order = parse(call("POST", port, "/orders").body());
                assertEquals("12970366926827028480", order.get("order").getAsString());
                JsonObject event = parse(call("POST", port, "/events").body());
                for (JsonObject one : new JsonObject[] {order, event}) {
                    assertEquals(7, UUID.fromString(one.get("event").getAsString()).version());
                }
                example.destroy();
                assertTrue(example.waitFor(10, TimeUnit.SECONDS));
                assertEquals(0, example.exitValue());
            } finally {
                example.destroyForcibly();
            }
        }
    }

    private static HttpResponse<String> call(String method, int port, String path)
            throws IOException, InterruptedException {
        URI uri = URI.create("http://127.0.0.1:" + port + path);
        HttpRequest request =
                HttpRequest.newBuilder(uri).method(method, BodyPublishers.noBody()).build();
        return HttpClient.newHttpClient().send(request, BodyHandlers.ofString());
    }

    private static JsonObject parse(String text) {
        return JsonParser.parseString(text).getAsJsonObject();
    }

    @Test
    void okTheAdapterAnswersCommands() throws Exception {
        try (Daemon daemon = new Daemon(directory)) {
            daemon.kent("region", "create", "orders", "--suffix", "40");
            daemon.kent("region", "create", "invoices", "--suffix", "40");
            daemon.kent("region", "set", "invoices", "--strict", "--yes");
            Process adapter = java("kent.tools.Conformance").start();
            var output =
                    new BufferedReader(
                            new InputStreamReader(
                                    adapter.getInputStream(), StandardCharsets.UTF_8));
            JsonObject hello = parse(output.readLine()).getAsJsonObject("hello");
            assertEquals("java", hello.get("language").getAsString());
            var input = adapter.getOutputStream();
            send(input, "{'id': 1, 'do': 'open', 'endpoints': ['" + daemon.address() + "']}");
            assertEquals("{\"id\":1}", output.readLine());
            String[] commands = {
                "{'id': 2, 'do': 'next', 'source': 'uuidv7', 'count': 100, 'threads': 4}",
                "{'id': 3, 'do': 'take', 'source': 'region:orders', 'count': 50000}",
                "{'id': 4, 'do': 'fetch', 'source': 'region:invoices', 'count': 3, 'request_id': 'a'}",
                "{'id': 5, 'do': 'fetch', 'source': 'region:invoices', 'count': 3, 'request_id': 'a'}",
                "{'id': 6, 'do': 'next', 'source': 'region:absent'}",
                "{'id': 7, 'do': 'try_next', 'source': 'xid'}",
            };
            for (String command : commands) {
                send(input, command);
            }
            Map<Integer, JsonObject> answers = new HashMap<>();
            for (int i = 0; i < commands.length; i++) {
                JsonObject answer = parse(output.readLine());
                answers.put(answer.get("id").getAsInt(), answer);
            }
            assertEquals(400, answers.get(2).getAsJsonArray("ids").size());
            assertEquals(50_000, answers.get(3).getAsJsonArray("ids").size());
            assertEquals(answers.get(4).get("ids"), answers.get(5).get("ids"));
            JsonObject error = answers.get(6).getAsJsonObject("error");
            assertEquals("refused", error.get("kind").getAsString());
            assertEquals("NO_SUCH_REGION", error.get("reason").getAsString());
            assertTrue(answers.get(7).has("ids"));
            send(input, "{'id': 9, 'do': 'close'}");
            assertEquals("{\"id\":9}", output.readLine());
            input.close();
            assertTrue(adapter.waitFor(10, TimeUnit.SECONDS));
            assertEquals(0, adapter.exitValue());
        }
    }

    private static void send(java.io.OutputStream input, String command) throws IOException {
        input.write((command.replace('\'', '"') + "\n").getBytes(StandardCharsets.UTF_8));
        input.flush();
    }

    @Test
    void okTheBenchmarkPrintsRounds() throws Exception {
        try (Daemon daemon = new Daemon(directory)) {
            ProcessBuilder builder = java("kent.tools.Bench");
            builder.environment().put("KENT_ENDPOINT", daemon.address());
            Process bench = builder.start();
            String output =
                    new String(bench.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            assertEquals(0, bench.waitFor());
            for (String line : output.lines().toList()) {
                assertTrue(parse(line).get("kent_ns").getAsDouble() > 0, line);
            }
            System.out.println(output);
        }
    }
}
