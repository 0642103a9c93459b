//! Every setting, once: its name, type, default, bounds, variable and help. The file, the environment, the flags, what is printed
//! and what is checked follow from this table.

use std::{net::SocketAddr, path::PathBuf, str::FromStr};

use serde::{Deserialize, Serialize};

use super::{
    error::ConfigError,
    etcd::EtcdSettings,
    kinds::{LogFormat, NoArchive, Span, StoreKind},
};

/// Makes [`Settings`] and [`Values`] of a table. A setting has a default, or none; and bounds, or none.
macro_rules! settings {
    ($($heading:literal {$(
        $(#[$more:meta])*
        $name:ident: $type:ty $(= $default:literal)? $([$min:literal to $max:literal])?, $env:literal $value:literal: $help:literal;
    )*})*) => {
        /// Every setting, each of them optional: the shape of the file, of the environment and of the flags.
        #[derive(Clone, Debug, Default, Deserialize, Serialize, clap::Args)]
        #[serde(deny_unknown_fields, rename_all = "kebab-case")]
        pub struct Settings {
            $($(
                #[doc = $help]
                #[arg(
                    long,
                    env = $env,
                    value_name = $value,
                    help_heading = $heading,
                    help = concat!($help $(, ", ", $min, " to ", $max)? $(, " [default: ", $default, "]")?)
                )]
                $(#[$more])*
                pub $name: Option<$type>,
            )*)*

            /// How to reach etcd.
            #[command(flatten)]
            #[serde(flatten)]
            pub etcd: EtcdSettings,
        }

        /// The settings that have a default.
        #[derive(Clone, Debug)]
        pub struct Values {
            $($($(
                #[doc = concat!($help, " [default: ", $default, "]")]
                pub $name: $type,
            )?)*)*
        }

        impl Settings {
            /// These settings where they say something, and `below` where they do not.
            pub(crate) fn over(self, below: Self) -> Self {
                Self { $($($name: self.$name.or(below.$name),)*)* etcd: self.etcd.over(below.etcd) }
            }

            /// What holds where nothing is said.
            pub(super) fn defaults() -> Self {
                Self { $($($($name: $default.parse().ok(),)?)*)* ..Self::default() }
            }

            /// Every setting that has a default, checked.
            pub(super) fn values(&self) -> Result<Values, ConfigError> {
                $($($(check(stringify!($name), self.$name.as_ref(), [$min, $max])?;)?)*)*
                Ok(Values { $($($($name: given(stringify!($name), &self.$name, $default)?,)?)*)* })
            }
        }
    };
}

settings! {
    "Ports" {
        listen: SocketAddr = "127.0.0.1:7600", "KENT_LISTEN" "ADDR:PORT":
            "Address of the gRPC port";
        http: SocketAddr = "127.0.0.1:7601", "KENT_HTTP" "ADDR:PORT":
            "Address of the HTTP port for /livez, /readyz and /metrics";
        advertise: String, "KENT_ADVERTISE" "HOST:PORT":
            "Where clients and operators reach this replica, as others are told [default: the address of the gRPC port]";
        #[arg(num_args = 0..=1, default_missing_value = "true")]
        insecure: bool = "false", "KENT_INSECURE" "BOOL":
            "Listens on an address that is not loopback although there is neither TLS nor authentication";
        threads: usize ["1" to "1024"], "KENT_THREADS" "COUNT":
            "Threads that serve connections; a connection stays with one [default: one for each processor]";
        grace: Span = "10s" ["0s" to "1h"], "KENT_GRACE" "DURATION":
            "How long requests in flight may take to finish after SIGTERM";
    }
    "Store" {
        store: StoreKind = "sled", "KENT_STORE" "STORE":
            "Where state is kept: `sled` (embedded, durable), `etcd://HOST:PORT,HOST:PORT/PREFIX` (or `etcds://`, over TLS; for any \
             number of replicas), or `memory` (lost at the end; for trying things out)";
        data: PathBuf = "kent-data", "KENT_DATA" "DIR":
            "Directory of the embedded store";
        witness: PathBuf, "KENT_WITNESS" "DIR":
            "Directory that remembers how often each store was started, kept outside of the stores, so that an old copy of one is \
             noticed. Best on another disk [default: witness in $STATE_DIRECTORY or kent/witness in $XDG_STATE_HOME or ~/.local/state, \
             the first that is on another disk than the data; for etcd none]";
        archive: PathBuf, "KENT_ARCHIVE" "DIR":
            "Directory that gets every commit before it is acknowledged, on another disk or a mounted share: from it the store can be \
             restored without any loss (kentd restore --archive). It has to exist. For the embedded store";
        archive_base_bytes: u64 = "67108864" ["131072" to "1099511627776"], "KENT_ARCHIVE_BASE_BYTES" "BYTES":
            "Bytes of commits in the archive after which all records are written to it anew";
        #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "ended")]
        no_archive: NoArchive, "KENT_NO_ARCHIVE" "lost":
            "Ends the archive of a store that was archived before, and says so in the archive; with `=lost` also if the archive is gone \
             for ever";
        #[arg(hide = true)]
        schema: u16, "KENT_SCHEMA" "NUMBER":
            "Pretends that the newest schema of records is this one, in tests of upgrades";
    }
    "Limits of requests" {
        lease_count: u64 = "1000000000" ["1" to "1000000000000"], "KENT_LEASE_COUNT" "COUNT":
            "The most identifiers in one lease";
        // Stock gRPC clients refuse messages of more than 4 MiB.
        packed_bytes: u64 = "2097152" ["16" to "1073741824"], "KENT_PACKED_BYTES" "BYTES":
            "The most bytes of identifiers in one packed reply";
        request_bytes: usize = "1048576" ["1024" to "1073741824"], "KENT_REQUEST_BYTES" "BYTES":
            "The largest request message, in bytes";
        streams: usize = "4096" ["1" to "1000000"], "KENT_STREAMS" "COUNT":
            "The most AllocateStream calls at once";
    }
    "Issuing" {
        window: Span = "1m" ["2s" to "1h"], "KENT_WINDOW" "DURATION":
            "For how long time-based identifiers can be issued while the store is away";
        chunk_min: u64 = "1024" ["1" to "4294967296"], "KENT_CHUNK_MIN" "COUNT":
            "The smallest chunk of a region's suffixes that is reserved at once: what a crash may skip";
        chunk_max: u64 = "1048576" ["1" to "4294967296"], "KENT_CHUNK_MAX" "COUNT":
            "The largest chunk";
        series_on_demand: u64 = "1000" ["0" to "1000000"], "KENT_SERIES_ON_DEMAND" "COUNT":
            "The most series that callers begin by asking; operators make others (kent series create)";
    }
    "Clock" {
        clock_tolerance: Span = "500ms" ["0s" to "1s"], "KENT_CLOCK_TOLERANCE" "DURATION":
            "A step back of the clock up to this is absorbed";
        clock_jump: Span = "1h" ["1m" to "30d"], "KENT_CLOCK_JUMP" "DURATION":
            "A jump of the clock ahead of the time since boot by more than this is not believed";
        absence: Span = "31d" ["1h" to "3650d"], "KENT_ABSENCE" "DURATION":
            "A start later than everything recorded by more than this is not believed";
    }
    "What is kept" {
        request_retention: Span = "30d" ["1s" to "36500d"], "KENT_REQUEST_RETENTION" "DURATION":
            "For how long a request_id of a strict grant or an edit is kept that is a UUID of version 7; one that is older is refused";
        requests_max: u64 = "10000000", "KENT_REQUESTS_MAX" "COUNT":
            "The most other request_ids, which are kept for ever: of each strict region, and of the edits of each space";
        history_keep: u64 = "100000" ["1" to "1000000000000"], "KENT_HISTORY_KEEP" "COUNT":
            "The edits of each table that are kept: of earlier ones nothing can be listed or watched";
    }
    "Log" {
        log_format: LogFormat = "text", "KENT_LOG_FORMAT" "FORMAT":
            "Form of the log on standard error: `text` or `json`";
        log: String = "info", "KENT_LOG" "FILTER":
            "What to log, in the manner of `info` or `kentd=debug,tonic=warn`";
    }
}

/// A setting's name as people write it.
fn kebab(name: &str) -> String {
    name.replace('_', "-")
}

/// Whether a setting is within its bounds.
fn check<T: FromStr + PartialOrd + ToString>(
    name: &str,
    value: Option<&T>,
    [min, max]: [&str; 2],
) -> Result<(), ConfigError> {
    let is_within = |value: &T| match (min.parse::<T>(), max.parse::<T>()) {
        (Ok(min), Ok(max)) => (min..=max).contains(value),
        _ => false,
    };
    match value.filter(|value| !is_within(value)) {
        None => Ok(()),
        Some(value) => {
            let allowed = format!("{min} to {max}");
            Err(ConfigError::OutOfRange { setting: kebab(name), value: value.to_string(), allowed })
        }
    }
}

/// What a setting says, or its default.
fn given<T: FromStr + Clone>(name: &str, value: &Option<T>, default: &str) -> Result<T, ConfigError> {
    let unusable = |_| ConfigError::OutOfRange {
        setting: kebab(name),
        value: default.to_owned(),
        allowed: "something else".to_owned(),
    };
    value.clone().map_or_else(|| default.parse().map_err(unusable), Ok)
}
