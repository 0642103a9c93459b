/** Programs that exercise the client: the adapter for the conformance kit, and a benchmark. */
@NullMarked
package kent.tools;

import org.jspecify.annotations.NullMarked;
