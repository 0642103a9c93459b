package kent.client;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * A real daemon for the tests. The variables KENTD and KENT name the programs of the daemon and the
 * command line.
 */
public final class Daemon implements AutoCloseable {
    /** The root of the repository. */
    public static final Path ROOT =
            Path.of(System.getProperty("kent.root", "../../..")).toAbsolutePath().normalize();

    private final Path directory;
    private final List<String> flags;
    private final int port = freePort();
    private Process process;

    public Daemon(Path directory, String... flags) {
        this.directory = directory;
        this.flags = List.of(flags);
        start();
    }

    public static int freePort() {
        try (ServerSocket one = new ServerSocket()) {
            one.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
            return one.getLocalPort();
        } catch (IOException error) {
            throw new AssertionError(error);
        }
    }

    public int port() {
        return port;
    }

    public String address() {
        return "127.0.0.1:" + port;
    }

    /** The endpoint of the daemon's Unix socket. */
    public String socket() {
        return "unix:" + directory.resolve("s");
    }

    public void start() {
        List<String> command = new ArrayList<>();
        command.addAll(List.of(program("kentd"), "--data", directory.resolve("d").toString()));
        command.addAll(List.of("--listen", address() + "," + socket()));
        command.addAll(List.of("--http", "127.0.0.1:" + freePort()));
        command.addAll(flags);
        Path log = directory.resolve("log");
        try {
            ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
            builder.redirectOutput(ProcessBuilder.Redirect.appendTo(log.toFile()));
            process = builder.start();
            for (int i = 0; i < 600; i++) {
                if (isListening(port)) {
                    return;
                }
                if (!process.isAlive()) {
                    throw new AssertionError(Files.readString(log));
                }
                Thread.sleep(50);
            }
        } catch (IOException | InterruptedException error) {
            throw new AssertionError(error);
        }
        throw new AssertionError("the daemon does not listen");
    }

    public static boolean isListening(int port) {
        try (Socket probe = new Socket()) {
            probe.connect(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), 1000);
            return true;
        } catch (IOException refused) {
            return false;
        }
    }

    /** Ends the daemon with SIGKILL. */
    public void kill() {
        try {
            process.destroyForcibly().waitFor();
        } catch (InterruptedException error) {
            throw new AssertionError(error);
        }
    }

    @Override
    public void close() {
        kill();
    }

    /** Runs the command kent. */
    public String kent(String... arguments) {
        return kentAt(address(), arguments);
    }

    /** Runs the command kent as the daemon's own user, who may do everything. */
    public String kentOverSocket(String... arguments) {
        return kentAt(socket(), arguments);
    }

    private static String kentAt(String endpoint, String... arguments) {
        List<String> command = new ArrayList<>(List.of(program("kent"), "--endpoint", endpoint));
        command.addAll(Arrays.asList(arguments));
        return run(null, command);
    }

    /** Runs a program in a directory. Returns its output. */
    public static String run(Path directory, List<String> command) {
        try {
            ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
            if (directory != null) {
                builder.directory(directory.toFile());
            }
            Process program = builder.start();
            program.getOutputStream().close();
            String output =
                    new String(program.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            if (!program.waitFor(60, TimeUnit.SECONDS) || program.exitValue() != 0) {
                throw new AssertionError(command + ": " + output);
            }
            return output;
        } catch (IOException | InterruptedException error) {
            throw new AssertionError(error);
        }
    }

    private static String program(String name) {
        String given = System.getenv(name.equals("kent") ? "KENT" : "KENTD");
        if (given != null && !given.isEmpty()) {
            return given;
        }
        String daemon = System.getenv("KENTD");
        if (daemon != null && Files.exists(Path.of(daemon).resolveSibling(name))) {
            return Path.of(daemon).resolveSibling(name).toString();
        }
        String target = System.getenv().getOrDefault("CARGO_TARGET_DIR", "target");
        Path built = ROOT.resolve(target).resolve("release").resolve(name);
        if (!Files.exists(built)) {
            throw new AssertionError(
                    "build it first: cargo build --release -p kentd -p kent-cli, or set KENTD and"
                            + " KENT");
        }
        return built.toString();
    }
}
