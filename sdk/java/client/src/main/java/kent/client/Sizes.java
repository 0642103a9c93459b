package kent.client;

import java.time.Duration;

/** How many identifiers a source keeps in memory, and for how long. */
record Sizes(int blockSize, int blockSizeMax, double lowWater, Duration maxAge) {
    Sizes {
        Settings.check(
                "blockSize",
                "1 to blockSizeMax (" + blockSizeMax + ")",
                1 <= blockSize && blockSize <= blockSizeMax);
        Settings.check("blockSizeMax", "at most 200000", blockSizeMax <= 200_000);
        Settings.check("lowWater", "0 to 1", 0 <= lowWater && lowWater <= 1);
        Settings.check("maxAge", "more than 0", !maxAge.isNegative() && !maxAge.isZero());
    }
}
