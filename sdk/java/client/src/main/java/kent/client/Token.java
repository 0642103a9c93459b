package kent.client;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * The token that is sent with each call. The client reads a token file again, at most once per
 * second.
 */
final class Token {
    private static final Pattern TOKEN = Pattern.compile("kent_[A-Za-z0-9_-]{1,995}");
    private static final long LOOK_EVERY = 1_000_000_000L;

    private final @Nullable Path file;
    private volatile @Nullable String header;
    private volatile long looked = System.nanoTime();

    Token(@Nullable String text, @Nullable Path file) {
        Settings.check("token", "left out if there is a tokenFile", text == null || file == null);
        this.file = file;
        if (text != null) {
            header = bearer(text);
        } else if (file != null) {
            try {
                header = bearer(Files.readString(file));
            } catch (IOException error) {
                throw new KentException.Config("tokenFile: " + error, error);
            }
        }
    }

    boolean isSet() {
        return header != null;
    }

    /** The value of the header {@code authorization} for the next call. */
    @Nullable String header() {
        return System.nanoTime() - looked >= LOOK_EVERY ? refresh() : header;
    }

    /** Reads the file again. Returns the header. */
    @Nullable String refresh() {
        looked = System.nanoTime();
        if (file != null) {
            try {
                header = bearer(Files.readString(file));
            } catch (IOException | KentException.Config replacedJustNow) {
                // While the file is being replaced, the previous token stays in use.
            }
        }
        return header;
    }

    private static String bearer(String text) {
        String token = text.strip();
        if (!TOKEN.matcher(token).matches()) {
            throw new KentException.Config(
                    "a token is kent_ID_SECRET, as `kent token create` prints it; a token"
                            + " file contains nothing else");
        }
        return "Bearer " + token;
    }
}
