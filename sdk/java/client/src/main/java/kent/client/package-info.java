/**
 * Client of Kent, the service that allocates unique identifiers. Start with {@link
 * kent.client.Client}.
 */
@NullMarked
package kent.client;

import org.jspecify.annotations.NullMarked;
