package kent.client;

import java.util.List;

/** The endpoints of a client, and the choice between them. */
final class Endpoints {
    /** After this time, the client tries its first endpoint again. */
    private static final long RETURN_AFTER = 30_000_000_000L;

    private final List<Endpoint> endpoints;
    private int current;
    private long leftFirst;

    Endpoints(List<Endpoint> endpoints) {
        this.endpoints = endpoints;
    }

    int size() {
        return endpoints.size();
    }

    Endpoint get(int index) {
        return endpoints.get(index);
    }

    /** The index of the endpoint for the next attempt. */
    synchronized int current() {
        if (current != 0 && System.nanoTime() - leftFirst >= RETURN_AFTER) {
            current = 0;
        }
        return current;
    }

    /** Switches to the next endpoint, unless another call has already done so. */
    synchronized void leave(int index) {
        if (current == index) {
            current = (index + 1) % endpoints.size();
            if (index == 0) {
                leftFirst = System.nanoTime();
            }
        }
    }
}
