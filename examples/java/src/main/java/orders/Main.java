package orders;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpHandler;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.math.BigInteger;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.UUID;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.function.Supplier;
import kent.client.Client;
import kent.client.KentException;
import kent.client.Source;

/**
 * A service that numbers orders and events with Kent: POST /orders, POST /events, GET /healthz. It
 * reads PORT and KENT_ENDPOINT from the environment.
 */
public final class Main {
    // The first call of a process can take seconds on a busy machine, because Java loads classes.
    private static final Duration TIMEOUT = Duration.ofSeconds(10);

    private final Source<UUID> events;
    private final Source<BigInteger> orders;

    private Main(Client client) {
        // All threads share one client, and one handle for each source.
        events = client.uuidV7();
        orders = client.region("orders");
    }

    public static void main(String[] arguments) throws IOException {
        int port = Integer.parseInt(System.getenv().getOrDefault("PORT", "8080"));
        String endpoint = System.getenv().getOrDefault("KENT_ENDPOINT", "127.0.0.1:7600");
        Client client = Client.connect(endpoint);
        Main service = new Main(client);
        InetAddress address = InetAddress.getByName("127.0.0.1");
        HttpServer server = HttpServer.create(new InetSocketAddress(address, port), 0);
        ExecutorService threads = Executors.newFixedThreadPool(32);
        server.setExecutor(threads);
        server.createContext("/orders", on("POST", service::order));
        server.createContext("/events", on("POST", service::event));
        server.createContext("/healthz", on("GET", () -> "ok"));
        server.start();
        Runnable end =
                () -> {
                    server.stop(1); // answers the requests in progress
                    threads.shutdown();
                    client.close();
                    Runtime.getRuntime().halt(0); // otherwise Java exits with 143, for SIGTERM
                };
        Runtime.getRuntime().addShutdownHook(new Thread(end)); // SIGTERM
    }

    private String order() {
        // Take the number first: if Kent refuses it, no event ID is wasted.
        BigInteger order = orders.next(TIMEOUT);
        return "{\"order\": \"" + order + "\", \"event\": \"" + events.next(TIMEOUT) + "\"}";
    }

    private String event() {
        return "{\"event\": \"" + events.next(TIMEOUT) + "\"}";
    }

    private static HttpHandler on(String method, Supplier<String> answer) {
        return exchange -> {
            if (!exchange.getRequestMethod().equals(method)) {
                send(exchange, 405, error("use " + method));
                return;
            }
            try {
                send(exchange, 200, answer.get());
            } catch (KentException refused) {
                send(exchange, 503, error(refused.getMessage()));
            }
        };
    }

    private static String error(String message) {
        String escaped =
                message.replace("\\", "\\\\").replace("\"", "\\\"").replaceAll("\\p{Cntrl}", " ");
        return "{\"error\": \"" + escaped + "\"}";
    }

    private static void send(HttpExchange exchange, int status, String text) throws IOException {
        byte[] body = text.getBytes(StandardCharsets.UTF_8);
        String type = text.startsWith("{") ? "application/json" : "text/plain";
        exchange.getResponseHeaders().set("Content-Type", type);
        exchange.sendResponseHeaders(status, body.length);
        try (var out = exchange.getResponseBody()) {
            out.write(body);
        }
    }
}
