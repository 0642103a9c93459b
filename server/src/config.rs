//! Configuration: a TOML file, then `KENT_*` variables, then flags; checked whole before anything is opened.

use std::{
    fmt, fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    str::FromStr,
    thread,
    time::Duration,
};

use clap::Parser;
use kent_issue::{Chunk, ClockPolicy, RequestPolicy, TrustPolicy};
use kent_store::{Archiving, BadAddress, EtcdAddress, EtcdCredentials, EtcdTls, SCHEMA};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    archive::{self, NoArchive},
    cluster::WINDOW_MAX,
    migrate::MigrateArgs,
    restore::RestoreArgs,
};

/// What the daemon was told, by flags and environment.
#[derive(Debug, Parser)]
#[command(
    name = "kentd",
    args_override_self = true,
    args_conflicts_with_subcommands = true,
    version,
    about = "The Kent daemon: hands out blocks of identifiers, each of them once, for ever",
    long_about = "The Kent daemon keeps durable generator state and the prefix tables of spaces, and hands out blocks of \
                  identifiers over gRPC. Settings come from the --config file, then KENT_* variables, then flags.",
    after_help = "Example: kentd --data /var/lib/kent --listen 127.0.0.1:7600"
)]
pub struct Args {
    /// TOML file with settings, named as the flags are.
    #[arg(long, env = "KENT_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// What to do instead of serving.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Prints the settings in force, as TOML, and exits.
    #[arg(long)]
    pub check_config: bool,

    /// The settings.
    #[command(flatten)]
    pub settings: Settings,
}

/// What can be done instead of serving.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Make a new store from a backup, or from an old copy of a data directory.
    ///
    /// What was issued after the backup was taken is not in it. Every counter is therefore moved past what may have been issued
    /// since: by --skip, or at ten times the rate of the backup until --until. Time-based identifiers are safe by themselves.
    /// Regions are sealed, since what was created, split, subdivided or expanded after the backup is not known; repeat those
    /// edits and unseal, or say --table-unchanged if there were none.
    Restore(RestoreArgs),
    /// Move a store from a directory to etcd.
    ///
    /// The directory must not be in use. It is marked as moved, and no daemon starts on it any more; so what it says is exact.
    /// All the same every counter is moved by two of the largest chunks, though never by more than half of what is left; those
    /// of strict regions are not moved. A move that was broken off is finished by the same command.
    Migrate(MigrateArgs),
}

/// Every setting, each of them optional: the shape of the file, of the environment and of the flags.
#[derive(Clone, Debug, Default, Deserialize, Serialize, clap::Args)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Address of the gRPC port [default: 127.0.0.1:7600].
    #[arg(long, env = "KENT_LISTEN", value_name = "ADDR:PORT")]
    pub listen: Option<SocketAddr>,

    /// Address of the HTTP port for /livez, /readyz and /metrics [default: 127.0.0.1:7601].
    #[arg(long, env = "KENT_HTTP", value_name = "ADDR:PORT")]
    pub http: Option<SocketAddr>,

    /// Directory of the embedded store [default: ./kent-data].
    #[arg(long, env = "KENT_DATA", value_name = "DIR")]
    pub data: Option<PathBuf>,

    /// Directory that remembers how often each store was started, kept outside of the stores, so that an old copy of one is noticed.
    /// Best on another disk [default: witness in $STATE_DIRECTORY or kent/witness in $XDG_STATE_HOME or ~/.local/state, the first
    /// that is on another disk than the data; for etcd none].
    #[arg(long, env = "KENT_WITNESS", value_name = "DIR")]
    pub witness: Option<PathBuf>,

    /// Directory that gets every commit before it is acknowledged, on another disk or a mounted share: from it the store can be
    /// restored without any loss (kentd restore --archive). It has to exist. For the embedded store.
    #[arg(long, env = "KENT_ARCHIVE", value_name = "DIR")]
    pub archive: Option<PathBuf>,

    /// Bytes of commits in the archive after which all records are written to it anew [default: 67108864].
    #[arg(long, env = "KENT_ARCHIVE_BASE_BYTES", value_name = "BYTES")]
    pub archive_base_bytes: Option<u64>,

    /// Ends the archive of a store that was archived before, and says so in the archive; with `=lost` also if the archive is gone
    /// for ever.
    #[arg(
        long,
        env = "KENT_NO_ARCHIVE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "told",
        value_name = "lost"
    )]
    pub no_archive: Option<NoArchive>,

    /// Where state is kept: `sled` (embedded, durable), `etcd://HOST:PORT,HOST:PORT/PREFIX` (or `etcds://`, over TLS; for any
    /// number of replicas), or `memory` (lost at the end; for trying things out) [default: sled].
    #[arg(long, env = "KENT_STORE", value_name = "STORE")]
    pub store: Option<StoreKind>,

    /// How to reach etcd.
    #[command(flatten)]
    #[serde(flatten)]
    pub etcd: EtcdSettings,

    /// Pretends that the newest schema of records is this one, in tests of upgrades.
    #[arg(long, env = "KENT_SCHEMA", value_name = "NUMBER", hide = true)]
    pub schema: Option<u16>,

    /// Where clients and operators reach this replica, as others are told [default: the address of the gRPC port].
    #[arg(long, env = "KENT_ADVERTISE", value_name = "HOST:PORT")]
    pub advertise: Option<String>,

    /// Listens on an address that is not loopback although there is neither TLS nor authentication.
    #[arg(long, env = "KENT_INSECURE", num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    pub insecure: Option<bool>,

    /// The most identifiers in one lease [default: 1000000000].
    #[arg(long, env = "KENT_LEASE_COUNT", value_name = "COUNT")]
    pub lease_count: Option<u64>,

    /// The most octets of identifiers in one packed reply [default: 2097152].
    #[arg(long, env = "KENT_PACKED_BYTES", value_name = "BYTES")]
    pub packed_bytes: Option<u64>,

    /// The most AllocateStream calls at once [default: 4096].
    #[arg(long, env = "KENT_STREAMS", value_name = "COUNT")]
    pub streams: Option<u64>,

    /// Threads that serve connections; a connection stays with one [default: one for each processor].
    #[arg(long, env = "KENT_THREADS", value_name = "COUNT")]
    pub threads: Option<u64>,

    /// The largest request message, in octets [default: 1048576].
    #[arg(long, env = "KENT_REQUEST_BYTES", value_name = "BYTES")]
    pub request_bytes: Option<u64>,

    /// How long requests in flight may take to finish after SIGTERM [default: 10s].
    #[arg(long, env = "KENT_GRACE", value_name = "DURATION", value_parser = humantime::parse_duration)]
    #[serde(default, with = "humantime_serde")]
    pub grace: Option<Duration>,

    /// A step back of the clock up to this is absorbed, at most max-ahead [default: 500ms].
    #[arg(long, env = "KENT_CLOCK_TOLERANCE", value_name = "DURATION", value_parser = humantime::parse_duration)]
    #[serde(default, with = "humantime_serde")]
    pub clock_tolerance: Option<Duration>,

    /// A jump of the clock ahead of the time since boot by more than this is not believed, 1m to 30d [default: 1h].
    #[arg(long, env = "KENT_CLOCK_JUMP", value_name = "DURATION", value_parser = humantime::parse_duration)]
    #[serde(default, with = "humantime_serde")]
    pub clock_jump: Option<Duration>,

    /// A start later than everything recorded by more than this is not believed, 1h to 3650d [default: 31d].
    #[arg(long, env = "KENT_ABSENCE", value_name = "DURATION", value_parser = humantime::parse_duration)]
    #[serde(default, with = "humantime_serde")]
    pub absence: Option<Duration>,

    /// For how long time-based identifiers can be issued while the store is away, 2s to 1h [default: 1m].
    #[arg(long, env = "KENT_WINDOW", value_name = "DURATION", value_parser = humantime::parse_duration)]
    #[serde(default, with = "humantime_serde")]
    pub window: Option<Duration>,

    /// The smallest chunk of a region's suffixes that is reserved at once: what a crash may skip [default: 1024].
    #[arg(long, env = "KENT_CHUNK_MIN", value_name = "COUNT")]
    pub chunk_min: Option<u64>,

    /// The largest chunk [default: 1048576].
    #[arg(long, env = "KENT_CHUNK_MAX", value_name = "COUNT")]
    pub chunk_max: Option<u64>,

    /// The most series that callers begin by asking; operators make others (kent series create) [default: 1000].
    #[arg(long, env = "KENT_SERIES_ON_DEMAND", value_name = "COUNT")]
    pub series_on_demand: Option<u64>,

    /// For how long a request_id of a strict grant or an edit is kept that is a UUID of version 7; one that is older is refused, 1s to
    /// 36500d [default: 30d].
    #[arg(long, env = "KENT_REQUEST_RETENTION", value_name = "DURATION", value_parser = humantime::parse_duration)]
    #[serde(default, with = "humantime_serde")]
    pub request_retention: Option<Duration>,

    /// The most other request_ids, which are kept for ever: of each strict region, and of the edits of each space [default: 10000000].
    #[arg(long, env = "KENT_REQUESTS_MAX", value_name = "COUNT")]
    pub requests_max: Option<u64>,

    /// The edits of each table that are kept: of earlier ones nothing can be listed or watched [default: 100000].
    #[arg(long, env = "KENT_HISTORY_KEEP", value_name = "COUNT")]
    pub history_keep: Option<u64>,

    /// Form of the log on standard error: `text` or `json` [default: text].
    #[arg(long, env = "KENT_LOG_FORMAT", value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,

    /// What to log, in the manner of `info` or `kentd=debug,tonic=warn` [default: info].
    #[arg(long, env = "KENT_LOG", value_name = "FILTER")]
    pub log: Option<String>,
}

/// How to reach etcd.
#[derive(Clone, Debug, Default, Deserialize, Serialize, clap::Args)]
#[serde(rename_all = "kebab-case")]
pub struct EtcdSettings {
    /// PEM file with the certificates that vouch for etcd; for `etcds://`.
    #[arg(long, env = "KENT_STORE_CA", value_name = "FILE")]
    pub store_ca: Option<PathBuf>,

    /// PEM file with the certificate to show to etcd, if it asks for one.
    #[arg(long, env = "KENT_STORE_CERT", value_name = "FILE")]
    pub store_cert: Option<PathBuf>,

    /// PEM file with the key of that certificate.
    #[arg(long, env = "KENT_STORE_KEY", value_name = "FILE")]
    pub store_key: Option<PathBuf>,

    /// The user to be for etcd, if it asks.
    #[arg(long, env = "KENT_STORE_USER", value_name = "NAME")]
    pub store_user: Option<String>,

    /// File with that user's password.
    #[arg(long, env = "KENT_STORE_PASSWORD_FILE", value_name = "FILE")]
    pub store_password_file: Option<PathBuf>,
}

/// Where state is kept.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub enum StoreKind {
    /// The embedded database in the data directory.
    Sled,
    /// An etcd cluster.
    Etcd(EtcdAddress),
    /// Nowhere: state is lost at the end.
    Memory,
}

impl FromStr for StoreKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "sled" => Ok(Self::Sled),
            "memory" => Ok(Self::Memory),
            _ if text.starts_with("etcd") => text.parse().map(Self::Etcd).map_err(|bad: BadAddress| bad.to_string()),
            _ => Err(format!("{text:?} is neither `sled` nor `memory` nor etcd://HOST:PORT/PREFIX")),
        }
    }
}

impl TryFrom<String> for StoreKind {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<StoreKind> for String {
    fn from(kind: StoreKind) -> Self {
        match kind {
            StoreKind::Sled => "sled".to_owned(),
            StoreKind::Memory => "memory".to_owned(),
            StoreKind::Etcd(address) => address.to_string(),
        }
    }
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// The settings in force, checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// Address of the gRPC port.
    pub listen: SocketAddr,
    /// Address of the HTTP port.
    pub http: SocketAddr,
    /// Directory of the embedded store.
    pub data: PathBuf,
    /// The directory that remembers how often each store was started, if a setting names one.
    pub witness: Option<PathBuf>,
    /// Whether the embedded store is archived.
    pub archiving: Archiving,
    /// Where state is kept.
    pub store: StoreKind,
    /// How to recognise etcd, and be recognised.
    pub etcd_tls: Option<EtcdTls>,
    /// Who to be for etcd.
    pub etcd_credentials: Option<EtcdCredentials>,
    /// Where others are told that this replica serves; its gRPC port unless this says otherwise.
    pub advertise: Option<String>,
    /// The newest schema of records that is used.
    pub schema: u16,
    /// The most identifiers in one lease.
    pub lease_count: u64,
    /// The most octets of identifiers in one packed reply.
    pub packed_bytes: u64,
    /// The most `AllocateStream` calls at once.
    pub streams: usize,
    /// Threads that serve connections.
    pub threads: usize,
    /// The largest request message, in octets.
    pub request_bytes: usize,
    /// How long requests in flight may take to finish after SIGTERM.
    pub grace: Duration,
    /// How the clock is trusted.
    pub clock: ClockPolicy,
    /// How far the clock is believed.
    pub trust: TrustPolicy,
    /// How many suffixes of a region are reserved at once.
    pub chunk: Chunk,
    /// The most series that callers begin by asking.
    pub series_on_demand: u64,
    /// For how long request_ids are kept, and how many.
    pub requests: RequestPolicy,
    /// The edits of each table that are kept.
    pub history_keep: u64,
    /// The form of the log.
    pub log_format: LogFormat,
    /// What to log.
    pub log: String,
    settings: Settings,
}

/// A setting that cannot be used.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("the configuration file {} cannot be read", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not what it should be.
    #[error("the configuration file {} is wrong", path.display())]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// Where and why.
        source: Box<toml::de::Error>,
    },
    /// A value is outside its range.
    #[error("{setting} is {value}, but must be {allowed}")]
    OutOfRange {
        /// The setting's name.
        setting: &'static str,
        /// What it was set to.
        value: String,
        /// What it may be.
        allowed: &'static str,
    },
    /// Settings that need each other.
    #[error("{setting} needs {needed}")]
    Needs {
        /// The setting.
        setting: &'static str,
        /// What it needs.
        needed: &'static str,
    },
    /// A file that a setting names cannot be read.
    #[error("the file {} of {setting} cannot be read", path.display())]
    File {
        /// The setting.
        setting: &'static str,
        /// Its value.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Without TLS and authentication the daemon is for this machine only.
    #[error(
        "{setting} is {address}, which other machines can reach, and this daemon has neither TLS nor authentication; use a \
         loopback address, or say --insecure if that is meant"
    )]
    Exposed {
        /// The setting's name.
        setting: &'static str,
        /// What it was set to.
        address: SocketAddr,
    },
}

impl Args {
    /// The settings in force: the file's, overridden by these.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if the file or a value cannot be used.
    pub fn into_config(self) -> Result<Config, ConfigError> {
        let file = match self.config {
            Some(path) => read(path)?,
            None => Settings::default(),
        };
        Config::check(self.settings.over(file))
    }
}

impl Settings {
    /// These settings where they say something, and `below` where they do not.
    fn over(self, below: Self) -> Self {
        Self {
            listen: self.listen.or(below.listen),
            http: self.http.or(below.http),
            data: self.data.or(below.data),
            witness: self.witness.or(below.witness),
            archive: self.archive.or(below.archive),
            archive_base_bytes: self.archive_base_bytes.or(below.archive_base_bytes),
            no_archive: self.no_archive.or(below.no_archive),
            store: self.store.or(below.store),
            etcd: self.etcd.over(below.etcd),
            schema: self.schema.or(below.schema),
            advertise: self.advertise.or(below.advertise),
            insecure: self.insecure.or(below.insecure),
            lease_count: self.lease_count.or(below.lease_count),
            packed_bytes: self.packed_bytes.or(below.packed_bytes),
            streams: self.streams.or(below.streams),
            threads: self.threads.or(below.threads),
            request_bytes: self.request_bytes.or(below.request_bytes),
            grace: self.grace.or(below.grace),
            clock_tolerance: self.clock_tolerance.or(below.clock_tolerance),
            clock_jump: self.clock_jump.or(below.clock_jump),
            absence: self.absence.or(below.absence),
            window: self.window.or(below.window),
            chunk_min: self.chunk_min.or(below.chunk_min),
            chunk_max: self.chunk_max.or(below.chunk_max),
            series_on_demand: self.series_on_demand.or(below.series_on_demand),
            request_retention: self.request_retention.or(below.request_retention),
            requests_max: self.requests_max.or(below.requests_max),
            history_keep: self.history_keep.or(below.history_keep),
            log_format: self.log_format.or(below.log_format),
            log: self.log.or(below.log),
        }
    }

    /// What holds where nothing is said.
    fn defaults() -> Self {
        let (clock, chunk, trust) = (ClockPolicy::default(), Chunk::default(), TrustPolicy::default());
        let requests = RequestPolicy::default();
        Self {
            listen: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 7600))),
            http: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 7601))),
            data: Some(PathBuf::from("kent-data")),
            witness: None,
            archive: None,
            archive_base_bytes: Some(archive::BASE_BYTES),
            no_archive: None,
            store: Some(StoreKind::Sled),
            etcd: EtcdSettings::default(),
            schema: None,
            advertise: None,
            insecure: Some(false),
            lease_count: Some(1_000_000_000),
            // Stock gRPC clients refuse messages of more than 4 MiB.
            packed_bytes: Some(2 << 20),
            streams: Some(4096),
            threads: Some(thread::available_parallelism().map_or(1, |count| count.get() as u64)),
            request_bytes: Some(1 << 20),
            grace: Some(Duration::from_secs(10)),
            clock_tolerance: Some(clock.tolerance),
            clock_jump: Some(trust.jump_max),
            absence: Some(trust.absence_max),
            window: Some(clock.window_last),
            chunk_min: Some(chunk.min),
            chunk_max: Some(chunk.max),
            series_on_demand: Some(1000),
            request_retention: Some(requests.retention),
            requests_max: Some(requests.undated_max),
            history_keep: Some(100_000),
            log_format: Some(LogFormat::Text),
            log: Some("info".to_owned()),
        }
    }
}

impl Config {
    /// Checks settings, after filling them up with the defaults.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] naming the first setting that cannot be used.
    pub fn check(settings: Settings) -> Result<Self, ConfigError> {
        let all = settings.over(Settings::defaults());
        let set = all.clone();
        // OK because the defaults set every setting.
        let get = |what: Option<u64>| what.unwrap_or_default();
        let (etcd_tls, etcd_credentials) = match &set.store {
            Some(StoreKind::Etcd(address)) => set.etcd.read(address)?,
            _ => (None, None),
        };
        if set.archive.is_some() && set.store != Some(StoreKind::Sled) {
            return Err(ConfigError::Needs {
                setting: "archive",
                needed: "the embedded store (store = \"sled\"): an etcd keeps copies by its own members, learners and snapshots",
            });
        }
        let archiving = archive::archiving(set.archive, get(set.archive_base_bytes), set.no_archive)?;
        let config = Self {
            archiving,
            etcd_tls,
            etcd_credentials,
            advertise: set.advertise,
            schema: set.schema.unwrap_or(SCHEMA),
            listen: set.listen.unwrap_or(([127, 0, 0, 1], 7600).into()),
            http: set.http.unwrap_or(([127, 0, 0, 1], 7601).into()),
            witness: set.witness,
            data: set.data.unwrap_or_default(),
            store: set.store.unwrap_or(StoreKind::Sled),
            lease_count: get(set.lease_count),
            packed_bytes: get(set.packed_bytes),
            streams: usize::try_from(get(set.streams)).unwrap_or(usize::MAX),
            threads: usize::try_from(get(set.threads)).unwrap_or(usize::MAX),
            request_bytes: usize::try_from(get(set.request_bytes)).unwrap_or(usize::MAX),
            grace: set.grace.unwrap_or_default(),
            clock: ClockPolicy {
                tolerance: set.clock_tolerance.unwrap_or_default(),
                window_last: set.window.unwrap_or_default(),
                ..ClockPolicy::default()
            },
            trust: TrustPolicy {
                jump_max: set.clock_jump.unwrap_or_default(),
                absence_max: set.absence.unwrap_or_default(),
            },
            chunk: Chunk { min: get(set.chunk_min), max: get(set.chunk_max) },
            series_on_demand: get(set.series_on_demand),
            history_keep: get(set.history_keep),
            requests: RequestPolicy {
                retention: set.request_retention.unwrap_or_default(),
                undated_max: get(set.requests_max),
            },
            log_format: set.log_format.unwrap_or(LogFormat::Text),
            log: set.log.unwrap_or_default(),
            settings: all,
        };
        config.check_ranges()?;
        config.check_exposure(set.insecure.unwrap_or(false))?;
        Ok(config)
    }

    fn check_ranges(&self) -> Result<(), ConfigError> {
        let millis = |duration: Duration| duration.as_millis();
        let ahead = millis(self.clock.max_ahead);
        range(
            "lease-count",
            self.lease_count,
            "1 to 1000000000000",
            (1..=1_000_000_000_000).contains(&self.lease_count),
        )?;
        range("packed-bytes", self.packed_bytes, "16 to 1073741824", (16..=1 << 30).contains(&self.packed_bytes))?;
        range("streams", self.streams, "1 to 1000000", (1..=1_000_000).contains(&self.streams))?;
        range("threads", self.threads, "1 to 1024", (1..=1024).contains(&self.threads))?;
        range(
            "request-bytes",
            self.request_bytes,
            "1024 to 1073741824",
            (1024..=1 << 30).contains(&self.request_bytes),
        )?;
        if let Archiving::To { base_after, .. } = self.archiving {
            let allowed = (1 << 17..=1 << 40).contains(&base_after);
            range("archive-base-bytes", base_after, "131072 to 1099511627776", allowed)?;
        }
        range("grace", format!("{:?}", self.grace), "at most 1h", self.grace <= HOUR)?;
        let tolerance = self.clock.tolerance;
        range("clock-tolerance", format!("{tolerance:?}"), "0s to 1s (max-ahead)", millis(tolerance) <= ahead)?;
        let window = self.clock.window_last;
        let allowed = (self.clock.window_first..=WINDOW_MAX).contains(&window);
        range("window", format!("{window:?}"), "2s to 1h", allowed)?;
        let TrustPolicy { jump_max, absence_max } = self.trust;
        range("clock-jump", format!("{jump_max:?}"), "1m to 30d", (HOUR / 60..=DAY * 30).contains(&jump_max))?;
        range("absence", format!("{absence_max:?}"), "1h to 3650d", (HOUR..=DAY * 3650).contains(&absence_max))?;
        range("chunk-min", self.chunk.min, "1 to chunk-max", (1..=self.chunk.max).contains(&self.chunk.min))?;
        range("chunk-max", self.chunk.max, "at most 4294967296", self.chunk.max <= 1 << 32)?;
        range("history-keep", self.history_keep, "at least 1", self.history_keep >= 1)?;
        let on_demand = self.series_on_demand;
        range("series-on-demand", on_demand, "at most 1000000", on_demand <= 1_000_000)?;
        let retention = self.requests.retention;
        let allowed = (Duration::from_secs(1)..=DAY * 36_500).contains(&retention);
        range("request-retention", format!("{retention:?}"), "1s to 36500d", allowed)
    }

    fn check_exposure(&self, insecure: bool) -> Result<(), ConfigError> {
        for (setting, address) in [("listen", self.listen), ("http", self.http)] {
            if !insecure && !address.ip().is_loopback() {
                return Err(ConfigError::Exposed { setting, address });
            }
        }
        Ok(())
    }
}

impl fmt::Display for Config {
    /// The settings in force, as a TOML file would have them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&toml::to_string(&self.settings).map_err(|_| fmt::Error)?)
    }
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err("the log format is text or json".to_owned()),
        }
    }
}

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

fn read(path: PathBuf) -> Result<Settings, ConfigError> {
    match std::fs::read_to_string(&path) {
        Ok(text) => toml::from_str(&text).map_err(|source| ConfigError::Malformed { path, source: Box::new(source) }),
        Err(source) => Err(ConfigError::Unreadable { path, source }),
    }
}

/// A certificate and its key.
type Pems = (Vec<u8>, Vec<u8>);

impl EtcdSettings {
    /// These settings where they say something, and `below` where they do not.
    fn over(self, below: Self) -> Self {
        Self {
            store_ca: self.store_ca.or(below.store_ca),
            store_cert: self.store_cert.or(below.store_cert),
            store_key: self.store_key.or(below.store_key),
            store_user: self.store_user.or(below.store_user),
            store_password_file: self.store_password_file.or(below.store_password_file),
        }
    }

    /// What the files say that are named for the etcd at `address`.
    pub(crate) fn read(
        &self,
        address: &EtcdAddress,
    ) -> Result<(Option<EtcdTls>, Option<EtcdCredentials>), ConfigError> {
        let tls = match (&self.store_ca, address.is_tls()) {
            (Some(ca), true) => Some(EtcdTls { ca: file("store-ca", ca)?, identity: self.identity()? }),
            (None, true) => return Err(ConfigError::Needs { setting: "a store at etcds://", needed: "store-ca" }),
            (Some(_), false) => return Err(ConfigError::Needs { setting: "store-ca", needed: "a store at etcds://" }),
            (None, false) => None,
        };
        Ok((tls, self.credentials()?))
    }

    fn identity(&self) -> Result<Option<Pems>, ConfigError> {
        match (&self.store_cert, &self.store_key) {
            (Some(certificate), Some(key)) => Ok(Some((file("store-cert", certificate)?, file("store-key", key)?))),
            (None, None) => Ok(None),
            _ => Err(ConfigError::Needs { setting: "store-cert", needed: "store-key, and the other way round" }),
        }
    }

    fn credentials(&self) -> Result<Option<EtcdCredentials>, ConfigError> {
        match (&self.store_user, &self.store_password_file) {
            (Some(user), Some(path)) => {
                let password = String::from_utf8_lossy(&file("store-password-file", path)?).trim_end().to_owned();
                Ok(Some(EtcdCredentials { user: user.clone(), password }))
            }
            (None, None) => Ok(None),
            _ => {
                let needed = "store-password-file, and the other way round";
                Err(ConfigError::Needs { setting: "store-user", needed })
            }
        }
    }
}

fn file(setting: &'static str, path: &Path) -> Result<Vec<u8>, ConfigError> {
    fs::read(path).map_err(|source| ConfigError::File { setting, path: path.to_owned(), source })
}

fn range(
    setting: &'static str,
    value: impl fmt::Display,
    allowed: &'static str,
    within: bool,
) -> Result<(), ConfigError> {
    match within {
        true => Ok(()),
        false => Err(ConfigError::OutOfRange { setting, value: value.to_string(), allowed }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_err(toml: &str, expected: &str) {
        let settings: Settings = toml::from_str(toml).expect("well-formed");
        let error = Config::check(settings).expect_err("must be refused");
        assert!(error.to_string().contains(expected), "{error}");
    }

    #[test]
    fn ok_defaults_are_valid_and_print_as_a_file_that_reads_back() {
        let config = Config::check(Settings::default()).expect("valid");
        let again: Settings = toml::from_str(&config.to_string()).expect("reads back");
        assert_eq!(Config::check(again).expect("valid").to_string(), config.to_string());
        assert_eq!(config.listen.to_string(), "127.0.0.1:7600");
    }

    #[test]
    fn ok_flags_come_before_the_file() {
        let file: Settings = toml::from_str("listen = '127.0.0.1:1'\ngrace = '3s'").expect("well-formed");
        let flags = Settings { listen: "127.0.0.1:2".parse().ok(), ..Settings::default() };
        let config = Config::check(flags.over(file)).expect("valid");
        assert_eq!((config.listen.port(), config.grace), (2, Duration::from_secs(3)));
    }

    #[test]
    fn err_each_bad_value_is_named_with_what_it_may_be() {
        check_err("lease-count = 0", "lease-count is 0, but must be 1 to");
        check_err("packed-bytes = 8", "packed-bytes is 8, but must be 16 to");
        check_err("streams = 0", "streams is 0");
        check_err("threads = 0", "threads is 0");
        check_err("request-bytes = 10", "request-bytes is 10");
        check_err("grace = '2h'", "grace is 7200s, but must be at most 1h");
        check_err("clock-tolerance = '2s'", "clock-tolerance is 2s, but must be 0s to 1s");
        check_err("window = '1s'", "window is 1s, but must be 2s to 1h");
        check_err("chunk-min = 0", "chunk-min is 0");
        check_err("chunk-min = 9\nchunk-max = 8", "chunk-min is 9, but must be 1 to chunk-max");
        check_err("history-keep = 0", "history-keep is 0, but must be at least 1");
        check_err("series-on-demand = 1000001", "series-on-demand is 1000001, but must be at most 1000000");
        check_err("request-retention = '10ms'", "request-retention is 10ms, but must be 1s to 36500d");
        check_err("archive = 'a'\narchive-base-bytes = 5", "archive-base-bytes is 5, but must be");
        check_err("archive = 'a'\nstore = 'etcd://127.0.0.1:2379/kent'", "archive needs the embedded store");
        check_err("archive = 'a'\nno-archive = 'told'", "archive needs that no-archive is not set");
        check_err("listen = '0.0.0.0:7600'", "--insecure");
        check_err("http = '[::]:7600'", "--insecure");
    }

    #[test]
    fn err_a_misspelt_setting_is_refused() {
        assert!(toml::from_str::<Settings>("lisen = '127.0.0.1:1'").is_err());
    }
}
