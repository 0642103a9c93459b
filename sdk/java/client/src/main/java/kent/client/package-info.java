/**
 * Client of Kent, the service that allocates unique identifiers. {@link kent.client.Client} is
 * where to start.
 */
@NullMarked
package kent.client;

import org.jspecify.annotations.NullMarked;
