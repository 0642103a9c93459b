package kent.client;

import java.util.HashMap;
import java.util.Map;
import kent.v1.AllocateResponse;

/** The highest fencing tokens that a client has seen. */
final class Fences {
    private record Subject(String scope, long number) {}

    private final Map<Subject, Long> highest = new HashMap<>();

    /**
     * Records a token, an unsigned number. Returns false if a higher token was already seen for the
     * same slot or region.
     */
    synchronized boolean admit(String scope, long subject, long token) {
        if (token == 0) {
            return true;
        }
        long max =
                highest.merge(
                        new Subject(scope, subject),
                        token,
                        (one, other) -> Long.compareUnsigned(one, other) < 0 ? other : one);
        return max == token;
    }

    /** Checks the fencing token of a reply. */
    boolean admit(Kind kind, String source, AllocateResponse reply) {
        return kind.isText()
                ? admit(
                        kind.scope(source),
                        reply.getText().getFenceSubject(),
                        reply.getText().getFenceToken())
                : admit(
                        kind.scope(source),
                        reply.getPacked().getFenceSubject(),
                        reply.getPacked().getFenceToken());
    }
}
