//! Names that users of other tools or of `kentd` may type although `kent` does not have them, and what to use instead.

/// Common names for commands that have another name here, and the possible replacements: the first one that exists
/// applies.
pub(super) const SYNONYMS: [(&str, &[&str]); 26] = [
    ("add", &["create"]),
    ("allocate", &["alloc"]),
    ("change", &["set"]),
    ("close", &["seal"]),
    ("confirm", &["accept"]),
    ("del", &["delete", "forget"]),
    ("delete", &["forget"]),
    ("drop", &["delete", "forget"]),
    ("dump", &["export", "backup"]),
    ("edit", &["set"]),
    ("extend", &["expand"]),
    ("grow", &["expand"]),
    ("health", &["status"]),
    ("info", &["show", "status"]),
    ("lock", &["seal"]),
    ("log", &["history"]),
    ("mv", &["rename"]),
    ("new", &["create"]),
    ("next", &["alloc"]),
    ("ping", &["status"]),
    ("remove", &["delete", "forget"]),
    ("revert", &["undo"]),
    ("snapshot", &["backup"]),
    ("trust", &["accept"]),
    ("unlock", &["unseal"]),
    ("update", &["set"]),
];

/// Commands of other tools that list things, or show one of them.
pub(super) const LISTS: [&str; 4] = ["describe", "get", "list", "show"];

/// Options that users may expect of commands whose names begin with these words, and what to use instead.
pub(super) const OPTIONS: [((&str, &str), &str); 17] = [
    (("kent", "timeout"), "--request-timeout"),
    (("kent", "token"), "--token-file FILE, because other users of the machine can see the arguments of commands"),
    (("kent alloc", "amount"), COUNT),
    (("kent alloc", "limit"), COUNT),
    (("kent alloc", "num"), COUNT),
    (("kent alloc", "number"), COUNT),
    (("kent alloc", "quantity"), COUNT),
    (("kent alloc", "size"), COUNT),
    (("kent region create", "bits"), "--suffix"),
    (("kent region create", "kind"), "`kent region subdivide`"),
    (("kent region create", "parent"), "`kent region subdivide`"),
    (("kent region create", "size"), "--suffix"),
    (("kent region ls", "order"), "--sort"),
    (("kent region set", "name"), "`kent region rename`"),
    (("kent region set", "suffix"), "`kent region expand` or `kent region shrink`"),
    (("kent region", "force"), "--yes"),
    (("kent space", "width"), "--bits"),
];

/// The option for the number of identifiers.
const COUNT: &str = "-n, such as -n 5";

/// The settings of the daemon, which `kent` does not have.
pub(super) const OF_DAEMON: [&str; 57] = [
    "absence",
    "advertise",
    "archive",
    "archive-base-bytes",
    "audit",
    "audit-bytes",
    "audit-files",
    "audit-required",
    "auth",
    "caller-limits",
    "check-config",
    "chunk-max",
    "chunk-min",
    "clock-jump",
    "clock-tolerance",
    "config",
    "connections",
    "connections-per-address",
    "data",
    "grace",
    "history-keep",
    "http",
    "http-api",
    "http-auth",
    "http-origins",
    "insecure",
    "lease-count",
    "listen",
    "log",
    "log-format",
    "metrics-regions",
    "new-store",
    "no-archive",
    "no-console",
    "otlp",
    "otlp-ca",
    "packed-bytes",
    "redis",
    "request-bytes",
    "request-retention",
    "requests-max",
    "series-on-demand",
    "store",
    "store-ca",
    "store-cert",
    "store-key",
    "store-password-file",
    "store-user",
    "streams",
    "threads",
    "tls-cert",
    "tls-client-ca",
    "tls-crl",
    "tls-key",
    "trace-ratio",
    "window",
    "witness",
];

/// The options with which other tools select one namespace, or all of them.
pub(super) const SPACE: [&str; 4] = ["-n", "--namespace", "--ns", "--database"];
pub(super) const ALL_SPACES: [&str; 4] = ["-A", "--all-namespaces", "--all-spaces", "--all"];
