//! The table of all settings: name, type, default, bounds, variable and help. The parsers for the TOML file, the
//! environment variables and the flags are generated from this table, as are the checks and the output of
//! `--check-config`.

use std::{net::SocketAddr, path::PathBuf, str::FromStr};

use kent_engine::{audit::AuditTo, patterns::RegionPatterns};
use kent_http::Origins;
use kent_ids::grouped;
use serde::{Deserialize, Serialize};

use super::{
    error::ConfigError,
    etcd::EtcdSettings,
    kinds::{
        AuthMode, CallerLimits, LogFormat, NoArchive, Span, StoreKind, parse_address, parse_share, parse_whole,
        read_address, ungrouped,
    },
    listen::Listen,
    tls::TlsSettings,
};

/// Generates [`Settings`] and [`Values`] from a table. The default and the bounds of a setting are optional.
macro_rules! settings {
    ($($heading:literal {$(
        $(#[$more:meta])*
        $name:ident: $type:ty $(= $default:literal)? $([$min:literal to $max:literal])?, $env:literal $value:literal: $help:literal;
    )*})*) => {
        /// All settings, each optional, as given in the file, in the environment or by flags.
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

            /// The settings for etcd.
            #[command(flatten)]
            #[serde(flatten)]
            pub etcd: EtcdSettings,

            /// The settings for TLS.
            #[command(flatten)]
            #[serde(flatten)]
            pub tls: TlsSettings,
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
            /// Merges two sets of settings: a value in `self` overrides the one in `below`.
            pub(crate) fn over(self, below: Self) -> Self {
                Self { $($($name: self.$name.or(below.$name),)*)* etcd: self.etcd.over(below.etcd), tls: self.tls.over(below.tls) }
            }

            /// The default settings.
            pub(super) fn defaults() -> Self {
                Self { $($($($name: ungrouped($default).parse().ok(),)?)*)* ..Self::default() }
            }

            /// Checks the bounds, and returns every setting that has a default.
            pub(super) fn values(&self) -> Result<Values, ConfigError> {
                $($($(check(stringify!($name), self.$name.as_ref(), [$min, $max])?;)?)*)*
                Ok(Values { $($($($name: value_or_default(stringify!($name), &self.$name, $default)?,)?)*)* })
            }
        }
    };
}

settings! {
    "Ports" {
        listen: Listen = "127.0.0.1:7600", "KENT_LISTEN" "ADDR:PORT,...":
            "Addresses of the gRPC port; `unix:PATH` is a Unix socket, to which only the daemon's user can connect. Without one, a daemon on \
             the embedded store also serves kent.sock in the data directory";
        #[arg(value_parser = parse_address)]
        #[serde(default, deserialize_with = "read_address")]
        http: SocketAddr = "127.0.0.1:7601", "KENT_HTTP" "ADDR:PORT":
            "Address of the HTTP port for /livez, /readyz, /metrics, and the API as JSON and gRPC-Web";
        #[arg(num_args = 0..=1, default_missing_value = "true")]
        http_api: bool = "true", "KENT_HTTP_API" "BOOL":
            "Also serve the API on the HTTP port";
        #[arg(num_args = 0..=1, default_missing_value = "true")]
        no_console: bool = "false", "KENT_NO_CONSOLE" "BOOL":
            "Do not serve the web console, which is at /console/ on the HTTP port";
        http_origins: Origins, "KENT_HTTP_ORIGINS" "ORIGIN,...":
            "Origins of web pages that may call the API on the HTTP port, such as `https://ops.example`";
        #[arg(value_parser = parse_address)]
        #[serde(default, deserialize_with = "read_address")]
        redis: SocketAddr, "KENT_REDIS" "ADDR:PORT":
            "Address of the Redis port, where INCR issues identifiers of a region (docs/redis.md) [default: none]";
        advertise: String, "KENT_ADVERTISE" "HOST:PORT":
            "Address at which clients and other replicas reach this replica [default: the address of the gRPC port]";
        #[arg(num_args = 0..=1, default_missing_value = "true")]
        insecure: bool = "false", "KENT_INSECURE" "BOOL":
            "Allow addresses that other machines can reach, without TLS and without authenticating callers";
        auth: AuthMode = "off", "KENT_AUTH" "MODE":
            "Whether callers must prove who they are: `required` (a token, a certificate that a role names, or the daemon's own user on \
             its Unix socket), or `off`";
        http_auth: AuthMode = "off", "KENT_HTTP_AUTH" "MODE":
            "Whether /metrics and /readyz need a token or certificate with the permission operate:*; /livez never does";
        #[arg(value_parser = parse_whole::<usize>)]
        threads: usize ["1" to "1_024"], "KENT_THREADS" "COUNT":
            "Threads that serve connections; each connection stays on one thread [default: one for each processor]";
        #[arg(num_args = 0..=1, default_missing_value = "true")]
        pin_threads: bool = "false", "KENT_PIN_THREADS" "BOOL":
            "Keep each of these threads on one processor, so that requests wait less beside other work of the daemon. Only for machines on \
             which no other program is busy for long (docs/operating.md)";
        grace: Span = "10s" ["0s" to "1h"], "KENT_GRACE" "DURATION":
            "Time for requests in flight to finish after SIGTERM";
    }
    "Connection limits" {
        #[arg(value_parser = parse_whole::<usize>)]
        connections: usize = "10_000" ["1" to "1_000_000"], "KENT_CONNECTIONS" "COUNT":
            "Maximum number of connections of the gRPC port, without those over Unix sockets; fewer if the system allows too few open files. \
             The Redis port accepts the same number in addition, and so does the HTTP port, but at most 1_000";
        #[arg(value_parser = parse_whole::<usize>)]
        connections_per_address: usize = "1_000" ["1" to "1_000_000"], "KENT_CONNECTIONS_PER_ADDRESS" "COUNT":
            "Maximum number of connections of each port from one IP address, or over Unix sockets from one user";
    }
    "Store" {
        store: StoreKind = "sled", "KENT_STORE" "STORE":
            "Where to store state: `sled` (embedded, durable), `etcd://HOST:PORT,HOST:PORT/PREFIX` (or `etcds://` for TLS; any \
             number of replicas), or `memory` (lost when the daemon stops; for experiments)";
        data: PathBuf = "kent-data", "KENT_DATA" "DIR":
            "Directory of the embedded store";
        witness: PathBuf, "KENT_WITNESS" "DIR":
            "Directory outside the stores that records how many times each store was started, so that the daemon detects an old copy of a \
             store. Put it on another disk [default: witness in $STATE_DIRECTORY, or kent/witness in $XDG_STATE_HOME or ~/.local/state, \
             the first of these on another disk than the data, otherwise the first; none for etcd]";
        #[arg(num_args = 0..=1, default_missing_value = "true")]
        new_store: bool, "KENT_NEW_STORE" "BOOL":
            "Create a store even if the witness has recorded another store at the same location: the new store may issue the other one's \
             numbers again";
        archive: PathBuf, "KENT_ARCHIVE" "DIR":
            "Existing directory, on another disk or a mounted share, to which the embedded store writes every commit before it acknowledges \
             the commit. `kentd restore --archive` restores a store from it without loss";
        #[arg(value_parser = parse_whole::<u64>)]
        archive_base_bytes: u64 = "67_108_864" ["131_072" to "1_099_511_627_776"], "KENT_ARCHIVE_BASE_BYTES" "BYTES":
            "Bytes of commits after which the archive gets a new full copy of all records";
        #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "ended")]
        no_archive: NoArchive, "KENT_NO_ARCHIVE" "lost":
            "Stop archiving an archived store, and mark the archive as ended; with `=lost` also if the archive is lost \
             permanently";
        #[arg(hide = true)]
        schema: u16, "KENT_SCHEMA" "NUMBER":
            "Newest schema of records to use, in tests of upgrades";
    }
    "Request limits" {
        #[arg(value_parser = parse_whole::<u64>)]
        lease_count: u64 = "1_000_000_000" ["1" to "1_000_000_000_000"], "KENT_LEASE_COUNT" "COUNT":
            "Maximum number of identifiers in one lease";
        // By default, gRPC clients reject messages of more than 4 MiB.
        #[arg(value_parser = parse_whole::<u64>)]
        packed_bytes: u64 = "2_097_152" ["16" to "1_073_741_824"], "KENT_PACKED_BYTES" "BYTES":
            "Maximum size of the identifiers in one packed reply, in bytes";
        #[arg(value_parser = parse_whole::<usize>)]
        request_bytes: usize = "1_048_576" ["1_024" to "1_073_741_824"], "KENT_REQUEST_BYTES" "BYTES":
            "Maximum size of a request message, in bytes";
        #[arg(value_parser = parse_whole::<usize>)]
        streams: usize = "4_096" ["1" to "1_000_000"], "KENT_STREAMS" "COUNT":
            "Maximum number of concurrent AllocateStream calls";
        caller_limits: CallerLimits, "KENT_CALLER_LIMITS" "LIMIT=NUMBER,...":
            "Limits of each caller whose token and roles have no others, such as `ids=100k/s,calls=1k/s,streams=20,connections=50` (docs/security.md). \
             They need --auth required [default: none]";
    }
    "Issuing" {
        window: Span = "1m" ["2s" to "1h"], "KENT_WINDOW" "DURATION":
            "How long the daemon can issue time-based identifiers while the store is unavailable";
        #[arg(value_parser = parse_whole::<u64>)]
        chunk_min: u64 = "1_024" ["1" to "4_294_967_296"], "KENT_CHUNK_MIN" "COUNT":
            "Smallest number of a region's suffixes to reserve in one commit; a crash may skip up to this number";
        #[arg(value_parser = parse_whole::<u64>)]
        chunk_max: u64 = "1_048_576" ["1" to "4_294_967_296"], "KENT_CHUNK_MAX" "COUNT":
            "Largest number of a region's suffixes to reserve in one commit";
        #[arg(value_parser = parse_whole::<u64>)]
        series_on_demand: u64 = "1_000" ["0" to "1_000_000"], "KENT_SERIES_ON_DEMAND" "COUNT":
            "Maximum number of series that requests create on demand; operators create more with `kent series create SERIES`";
    }
    "Clock" {
        clock_tolerance: Span = "500ms" ["0s" to "1s"], "KENT_CLOCK_TOLERANCE" "DURATION":
            "Largest backward step of the clock that the daemon absorbs";
        clock_jump: Span = "1h" ["1m" to "30d"], "KENT_CLOCK_JUMP" "DURATION":
            "Largest forward jump of the clock, relative to the time since boot, that the daemon accepts without an operator";
        absence: Span = "31d" ["1h" to "3650d"], "KENT_ABSENCE" "DURATION":
            "Longest time between the latest time in the store and a start that the daemon accepts without an operator";
    }
    "Retention" {
        request_retention: Span = "30d" ["1s" to "36500d"], "KENT_REQUEST_RETENTION" "DURATION":
            "How long to keep request_ids of strict grants and edits if they are version 7 UUIDs; older ones are rejected";
        #[arg(value_parser = parse_whole::<u64>)]
        requests_max: u64 = "10_000_000", "KENT_REQUESTS_MAX" "COUNT":
            "Maximum number of other request_ids, which are kept permanently: per strict region, and per space for edits";
        #[arg(value_parser = parse_whole::<u64>)]
        history_keep: u64 = "100_000" ["1" to "1_000_000_000_000"], "KENT_HISTORY_KEEP" "COUNT":
            "Number of edits of each table to keep; earlier ones can no longer be listed or watched";
    }
    "Metrics and log" {
        metrics_regions: RegionPatterns, "KENT_METRICS_REGIONS" "PATTERN,...":
            "Regions with metrics of their own, by NAME or NAME@SPACE with `*`, `?` and `[...]`, such as `orders-*,*@parts`; \
             `*@*` selects all. Up to 1_000 regions [default: none]";
        log_format: LogFormat = "text", "KENT_LOG_FORMAT" "FORMAT":
            "Format of the log on standard error: `text` or `json`";
        log: String = "info", "KENT_LOG" "FILTER":
            "What to log, such as `info` or `kent=debug,tonic=warn`";
    }
    "Traces" {
        otlp: String, "KENT_OTLP" "URL":
            "OpenTelemetry collector, to which spans of calls go over OTLP (gRPC), such as `http://127.0.0.1:4317` [default: none]";
        otlp_ca: PathBuf, "KENT_OTLP_CA" "FILE":
            "PEM file with the CAs that verify the collector at an https:// address [default: those of the system]";
        #[arg(value_parser = parse_share)]
        trace_ratio: f64 = "0" ["0" to "1"], "KENT_TRACE_RATIO" "RATIO":
            "Share of calls to trace among those without a traceparent header, such as 0.01; for other calls, the header decides";
    }
    "Audit" {
        audit: AuditTo, "KENT_AUDIT" "FILE|stderr":
            "Where to write the audit log, one JSON object per line: a file, or `stderr` for standard error (./stderr is a file of this \
             name) [default: nowhere]";
        #[arg(value_parser = parse_whole::<u64>)]
        audit_bytes: u64 = "16_777_216" ["4_096" to "1_099_511_627_776"], "KENT_AUDIT_BYTES" "BYTES":
            "Size at which the audit file becomes FILE.1, and a new one begins";
        #[arg(value_parser = parse_whole::<u32>)]
        audit_files: u32 = "10" ["1" to "1_000"], "KENT_AUDIT_FILES" "COUNT":
            "Number of audit files to keep, including the current one";
        #[arg(num_args = 0..=1, default_missing_value = "true")]
        audit_required: bool = "false", "KENT_AUDIT_REQUIRED" "BOOL":
            "Stop the daemon if the audit log cannot be written; otherwise it logs an error, counts the lost events and continues";
    }
}

/// A setting's name as it is written in flags and files.
fn kebab(name: &str) -> String {
    name.replace('_', "-")
}

/// Checks that a setting is within its bounds.
fn check<T: FromStr + PartialOrd + ToString>(
    name: &str,
    value: Option<&T>,
    [min, max]: [&str; 2],
) -> Result<(), ConfigError> {
    let is_within = |value: &T| match (ungrouped(min).parse::<T>(), ungrouped(max).parse::<T>()) {
        (Ok(min), Ok(max)) => (min..=max).contains(value),
        _ => false,
    };
    match value.filter(|value| !is_within(value)) {
        None => Ok(()),
        Some(value) => {
            let allowed = format!("{min} to {max}");
            Err(ConfigError::OutOfRange { setting: kebab(name), value: shown(value), allowed })
        }
    }
}

/// Writes a value for a message, with its digits in groups if it is a number.
fn shown(value: &impl ToString) -> String {
    let value = value.to_string();
    if value.bytes().all(|byte| byte.is_ascii_digit()) { grouped(value) } else { value }
}

/// Returns the value of a setting, or its default.
fn value_or_default<T: FromStr + Clone>(name: &str, value: &Option<T>, default: &str) -> Result<T, ConfigError> {
    let unusable = |_| ConfigError::OutOfRange {
        setting: kebab(name),
        value: default.to_owned(),
        allowed: "something else".to_owned(),
    };
    value.clone().map_or_else(|| ungrouped(default).parse().map_err(unusable), Ok)
}
