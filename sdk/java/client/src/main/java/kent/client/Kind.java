package kent.client;

import kent.v1.Encoding;

/** How the identifiers of a source are encoded in replies, and whether they expire. */
enum Kind {
    UUID_OF_SLOT(Encoding.ENCODING_PACKED, true, true),
    UUID_OF_SERIES(Encoding.ENCODING_PACKED, false, false),
    TEXT_OF_SLOT(Encoding.ENCODING_TEXT, true, true),
    TEXT_OF_SERIES(Encoding.ENCODING_TEXT, false, false),
    NUMBER(Encoding.ENCODING_PACKED, false, false);

    final Encoding encoding;

    /** Whether identifiers expire, because they contain a timestamp. */
    final boolean ages;

    /** Whether fencing tokens belong to slots of the cluster, not to the source. */
    private final boolean hasSlots;

    Kind(Encoding encoding, boolean ages, boolean hasSlots) {
        this.encoding = encoding;
        this.ages = ages;
        this.hasSlots = hasSlots;
    }

    /** The kind of the source with this name. */
    static Kind of(String source) {
        if (source.startsWith("region:")) {
            return NUMBER;
        }
        if (source.startsWith("serial:")) {
            return UUID_OF_SERIES;
        }
        if (source.startsWith("uuid")) {
            return UUID_OF_SLOT;
        }
        return source.equals("uid11-fullrand") ? TEXT_OF_SERIES : TEXT_OF_SLOT;
    }

    boolean isText() {
        return encoding == Encoding.ENCODING_TEXT;
    }

    boolean isUuid() {
        return this == UUID_OF_SLOT || this == UUID_OF_SERIES;
    }

    /**
     * The scope of fencing tokens: a slot belongs to the whole cluster, but the number of a region
     * is unique only in its space.
     */
    String scope(String source) {
        return hasSlots ? "" : source;
    }
}
