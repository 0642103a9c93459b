package kent.client;

import io.grpc.ChannelCredentials;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.TlsChannelCredentials;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** The checked settings of a client. */
record Settings(
        List<Endpoint> endpoints,
        Token token,
        ChannelCredentials credentials,
        Duration attemptTimeout,
        Duration requestTimeout,
        Sizes sizes,
        boolean followHeirs) {

    Settings {
        check("attemptTimeout", "more than 0", isPositive(attemptTimeout));
        check("requestTimeout", "more than 0", isPositive(requestTimeout));
    }

    static Settings of(Client.Builder builder) {
        List<String> texts =
                builder.endpoints.isEmpty() ? List.of("127.0.0.1:7600") : builder.endpoints;
        boolean certified = builder.ca != null || builder.cert != null;
        List<Endpoint> endpoints =
                texts.stream().map(text -> Endpoint.parse(text, certified)).toList();
        long kinds =
                endpoints.stream()
                        .filter(one -> !one.isUnix())
                        .map(Endpoint::tls)
                        .distinct()
                        .count();
        check("the endpoints", "all with https:// or all without", kinds < 2);
        Token token = new Token(builder.token, builder.tokenFile);
        if (token.isSet() && !builder.allowPlainToken) {
            endpoints.stream().filter(one -> !one.isPrivate()).forEach(Settings::refuseToken);
        }
        return new Settings(
                endpoints,
                token,
                credentials(builder, endpoints.stream().anyMatch(Endpoint::tls)),
                builder.attemptTimeout,
                builder.requestTimeout,
                new Sizes(
                        builder.blockSize, builder.blockSizeMax, builder.lowWater, builder.maxAge),
                builder.followHeirs);
    }

    static void check(String name, String allowed, boolean holds) {
        if (!holds) {
            throw new KentException.Config(name + " must be " + allowed);
        }
    }

    private static boolean isPositive(Duration duration) {
        return !duration.isNegative() && !duration.isZero();
    }

    private static void refuseToken(Endpoint endpoint) {
        throw new KentException.Config(
                "endpoint "
                        + endpoint.name()
                        + " is on another machine and without TLS, so its network could read the"
                        + " token: use https://, or allowPlainToken(true)");
    }

    private static ChannelCredentials credentials(Client.Builder builder, boolean tls) {
        byte[] ca = read("ca", builder.ca);
        byte[] cert = read("cert", builder.cert);
        byte[] key = read("key", builder.key);
        check("ca, cert and key", "left out without https://", tls || (ca == null && cert == null));
        if (!tls) {
            return InsecureChannelCredentials.create();
        }
        TlsChannelCredentials.Builder credentials = TlsChannelCredentials.newBuilder();
        try {
            if (ca != null) {
                credentials.trustManager(new ByteArrayInputStream(ca));
            }
            if (cert != null && key != null) {
                credentials.keyManager(
                        new ByteArrayInputStream(cert), new ByteArrayInputStream(key));
            }
        } catch (IOException error) {
            throw new KentException.Config("ca, cert and key: " + error.getMessage(), error);
        }
        ChannelCredentials made = credentials.build();
        try {
            // gRPC reads the files only when it creates a channel.
            Grpc.newChannelBuilder("localhost", made);
        } catch (RuntimeException error) {
            throw new KentException.Config(
                    "ca, cert and key: gRPC cannot read them; the key must be in PKCS #8 format: "
                            + error.getMessage(),
                    error);
        }
        return made;
    }

    private static byte @Nullable [] read(String name, @Nullable Path file) {
        try {
            return file == null ? null : Files.readAllBytes(file);
        } catch (IOException error) {
            throw new KentException.Config(name + ": " + error, error);
        }
    }
}
