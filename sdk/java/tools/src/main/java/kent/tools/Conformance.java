package kent.tools;

import com.google.gson.Gson;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.function.Consumer;
import kent.client.Client;
import kent.client.KentException;
import kent.client.Source;
import org.jspecify.annotations.Nullable;

/** The adapter for the conformance kit: reads commands from standard input, and answers each. */
public final class Conformance {
    private static final List<String> CAN =
            List.of("try_next", "take", "fetch", "threads", "xid", "tls", "token_file", "heirs");

    private final Gson gson = new Gson();
    private final PrintStream out;
    private volatile @Nullable Client client;

    private Conformance(PrintStream out) {
        this.out = out;
    }

    public static void main(String[] arguments) throws IOException {
        new Conformance(new PrintStream(System.out, true, StandardCharsets.UTF_8)).run();
        System.exit(0);
    }

    private void run() throws IOException {
        JsonObject hello = new JsonObject();
        hello.addProperty("language", "java");
        hello.add("can", gson.toJsonTree(CAN));
        JsonObject first = new JsonObject();
        first.add("hello", hello);
        print(first);
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JsonObject command = JsonParser.parseString(line).getAsJsonObject();
            start(() -> answer(command));
        }
    }

    private static Thread start(Runnable task) {
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    private synchronized void print(JsonObject line) {
        out.println(gson.toJson(line));
    }

    private void answer(JsonObject command) {
        JsonObject answer = new JsonObject();
        answer.add("id", command.get("id"));
        String what = command.get("do").getAsString();
        boolean takes = !what.equals("open") && !what.equals("close");
        List<String> ids = Collections.synchronizedList(new ArrayList<>());
        try {
            carryOut(what, command, ids);
        } catch (KentException error) {
            answer.add("error", describe(error));
        } catch (RuntimeException | InterruptedException error) {
            error.printStackTrace();
            JsonObject unknown = new JsonObject();
            unknown.addProperty("kind", "adapter");
            unknown.addProperty("message", error.toString());
            answer.add("error", unknown);
        }
        if (takes) {
            answer.add("ids", gson.toJsonTree(ids));
        }
        print(answer);
    }

    private void carryOut(String what, JsonObject command, List<String> ids)
            throws InterruptedException {
        switch (what) {
            case "open" -> client = open(command);
            case "close" -> client().close();
            case "next" -> next(command, ids);
            case "try_next" -> source(command).tryNext().ifPresent(id -> ids.add(id.toString()));
            case "take" -> {
                Duration timeout = timeout(command);
                int count = count(command);
                Source<?> source = source(command);
                addAll(ids, timeout == null ? source.take(count) : source.take(count, timeout));
            }
            case "fetch" -> {
                Duration timeout = timeout(command);
                String request = command.get("request_id").getAsString();
                int count = count(command);
                Source<?> source = source(command);
                addAll(
                        ids,
                        timeout == null
                                ? source.fetch(count, request)
                                : source.fetch(count, request, timeout));
            }
            default -> throw new IllegalArgumentException("unknown command " + what);
        }
    }

    private static void addAll(List<String> ids, List<?> taken) {
        taken.forEach(id -> ids.add(id.toString()));
    }

    private void next(JsonObject command, List<String> ids) throws InterruptedException {
        Source<?> source = source(command);
        Duration timeout = timeout(command);
        int count = count(command);
        List<KentException> errors = Collections.synchronizedList(new ArrayList<>());
        Runnable work =
                () -> {
                    try {
                        for (int i = 0; i < count; i++) {
                            Object id = timeout == null ? source.next() : source.next(timeout);
                            ids.add(id.toString());
                        }
                    } catch (KentException error) {
                        errors.add(error);
                    }
                };
        List<Thread> threads = new ArrayList<>();
        int number = command.has("threads") ? command.get("threads").getAsInt() : 1;
        for (int i = 0; i < number; i++) {
            threads.add(start(work));
        }
        for (Thread thread : threads) {
            thread.join();
        }
        if (!errors.isEmpty()) {
            throw errors.get(0);
        }
    }

    private Client client() {
        Client open = client;
        if (open == null) {
            throw new IllegalStateException("not open");
        }
        return open;
    }

    /** The source that the command names. The client keeps one handle for each source. */
    private Source<?> source(JsonObject command) {
        return client().source(command.get("source").getAsString());
    }

    private static int count(JsonObject command) {
        return command.has("count") ? command.get("count").getAsInt() : 1;
    }

    private static @Nullable Duration timeout(JsonObject command) {
        return command.has("timeout_ms")
                ? Duration.ofMillis(command.get("timeout_ms").getAsLong())
                : null;
    }

    private static Client open(JsonObject command) {
        Client.Builder builder = Client.builder();
        List<String> endpoints = new ArrayList<>();
        JsonArray given = command.getAsJsonArray("endpoints");
        given.forEach(endpoint -> endpoints.add(endpoint.getAsString()));
        builder.endpoints(endpoints);
        set(command, "attempt_timeout_ms", at -> builder.attemptTimeout(millis(at)));
        set(command, "request_timeout_ms", at -> builder.requestTimeout(millis(at)));
        set(command, "block_size", at -> builder.blockSize(at.getAsInt()));
        set(command, "block_size_max", at -> builder.blockSizeMax(at.getAsInt()));
        set(command, "low_water", at -> builder.lowWater(at.getAsDouble()));
        set(command, "max_age_ms", at -> builder.maxAge(millis(at)));
        set(command, "follow_heirs", at -> builder.followHeirs(at.getAsBoolean()));
        set(command, "ca", at -> builder.ca(path(at)));
        set(command, "cert", at -> builder.certificate(path(at), path(command.get("key"))));
        set(command, "token", at -> builder.token(at.getAsString()));
        set(command, "token_file", at -> builder.tokenFile(path(at)));
        return builder.build();
    }

    private static void set(JsonObject command, String name, Consumer<JsonElement> setter) {
        JsonElement value = command.get(name);
        if (value != null && !value.isJsonNull()) {
            setter.accept(value);
        }
    }

    private static Duration millis(JsonElement value) {
        return Duration.ofMillis(value.getAsLong());
    }

    private static Path path(JsonElement value) {
        return Path.of(value.getAsString());
    }

    private JsonObject describe(KentException error) {
        JsonObject described = new JsonObject();
        described.addProperty("kind", kind(error));
        if (error instanceof KentException.Rpc rpc) {
            described.addProperty("code", rpc.code().name());
            described.addProperty("reason", rpc.reason());
            described.add("metadata", gson.toJsonTree(rpc.metadata()));
            described.add("fields", gson.toJsonTree(rpc.fields()));
            rpc.retryAfter()
                    .ifPresent(after -> described.addProperty("retry_after_ms", after.toMillis()));
        }
        described.addProperty("message", error.getMessage());
        return described;
    }

    private static String kind(KentException error) {
        if (error instanceof KentException.Refused) {
            return "refused";
        }
        if (error instanceof KentException.Limited) {
            return "limited";
        }
        if (error instanceof KentException.Unavailable) {
            return "unavailable";
        }
        if (error instanceof KentException.Fenced) {
            return "fenced";
        }
        if (error instanceof KentException.Closed) {
            return "closed";
        }
        return error instanceof KentException.Config ? "config" : "unusable";
    }
}
