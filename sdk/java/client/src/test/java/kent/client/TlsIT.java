package kent.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tests TLS and client certificates. openssl creates the certificates. */
class TlsIT {
    @TempDir Path directory;

    private void certificate(String name, String... extension) {
        List<String> command = new ArrayList<>(List.of("openssl", "req", "-x509", "-newkey", "ec"));
        command.addAll(List.of("-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"));
        command.addAll(List.of("-keyout", name + ".key", "-out", name + ".pem"));
        command.addAll(List.of("-subj", "/CN=" + name));
        command.addAll(List.of(extension));
        Daemon.run(directory, command);
    }

    private void signed(String name, String subject) {
        String leaf = "basicConstraints=CA:FALSE";
        certificate(name, "-CA", "ca.pem", "-CAkey", "ca.key", "-addext", subject, "-addext", leaf);
    }

    private Path file(String name) {
        return directory.resolve(name);
    }

    @Test
    void okTlsAndClientCertificates() {
        certificate("ca");
        signed("server", "subjectAltName=IP:127.0.0.1");
        signed("client", "subjectAltName=DNS:orders");
        certificate("other");
        try (Daemon daemon =
                new Daemon(
                        directory,
                        "--tls-cert",
                        file("server.pem").toString(),
                        "--tls-key",
                        file("server.key").toString(),
                        "--tls-client-ca",
                        file("ca.pem").toString())) {
            String address = "https://" + daemon.address();
            UnaryOperator<Client.Builder> identity =
                    builder -> builder.certificate(file("client.pem"), file("client.key"));
            for (String endpoint : List.of(address, daemon.address())) {
                try (Client client =
                        identity.apply(Client.builder().endpoints(endpoint).ca(file("ca.pem")))
                                .build()) {
                    assertEquals(7, client.uuidV7().next().version());
                }
            }
            String wrongName = "https://localhost:" + daemon.port();
            for (Client.Builder builder :
                    List.of(
                            identity.apply(
                                    Client.builder().endpoints(address).ca(file("other.pem"))),
                            Client.builder().endpoints(address).ca(file("ca.pem")),
                            identity.apply(
                                    Client.builder().endpoints(wrongName).ca(file("ca.pem"))),
                            identity.apply(Client.builder().endpoints(address)),
                            Client.builder().endpoints(daemon.address()))) {
                try (Client client = builder.requestTimeout(Duration.ofSeconds(1)).build()) {
                    assertThrows(KentException.Unavailable.class, () -> client.uuidV7().next());
                }
            }
        }
        var error =
                assertThrows(
                        KentException.Config.class,
                        () ->
                                Client.builder()
                                        .endpoints("https://a:1")
                                        .certificate(file("client.key"), file("nothing.key"))
                                        .build());
        assertTrue(error.getMessage().contains("nothing.key"), error.getMessage());
    }
}
