//! Configuration: a TOML file, then `KENT_*` variables, then flags. All settings are checked before anything is opened.

mod error;
mod etcd;
mod file;
mod kinds;
mod listen;
mod misspelt;
mod otlp;
mod paths;
mod settings;
mod tls;

use std::{
    fmt,
    net::SocketAddr,
    path::{Path, PathBuf},
    thread,
};

use kent_access::Limits;
use kent_engine::{
    audit::{AuditTo, Rotation},
    engine::EngineSettings,
    grant::Limits as GrantLimits,
};
use kent_http::Origins;
use kent_ids::grouped;
use kent_issue::{Chunk, ClockPolicy, RequestPolicy, TrustPolicy};
use kent_store::{Archiving, EtcdCredentials, SCHEMA};
use kent_tls::Certificates;
use kent_transport::{threads::Threads, tls::TlsFiles};
use tonic::codegen::http::Uri;

pub use error::ConfigError;
pub use etcd::EtcdSettings;
pub use kent_engine::patterns::RegionPatterns;
pub use kinds::{AuthMode, LogFormat, NoArchive, Span, StoreKind};
pub use listen::{Listen, ListenAddress};
pub(crate) use misspelt::{is_list, misspelt_variables};
pub(crate) use otlp::Collector;
pub use settings::{Settings, Values};
pub use tls::TlsSettings;

/// The settings in force, checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// The settings that have a default.
    pub set: Values,
    /// The threads that serve the connections of each port.
    pub threads: Threads,
    /// The directory that records how many times each store was started, if a setting names one.
    pub witness: Option<PathBuf>,
    /// Whether a new store may be created at a location where the witness has recorded another store.
    pub new_store: bool,
    /// Whether and where the embedded store is archived.
    pub archiving: Archiving,
    /// The certificates that authenticate etcd to the daemon and the daemon to etcd.
    pub etcd_tls: Option<Certificates>,
    /// The user name and password for etcd.
    pub etcd_credentials: Option<EtcdCredentials>,
    /// The address at which clients and other replicas reach this replica; by default, the address of the gRPC port.
    pub advertise: Option<String>,
    /// The files of the certificates, if the ports use TLS.
    pub tls: Option<TlsFiles>,
    /// The regions that have separate metrics.
    pub metrics_regions: RegionPatterns,
    /// The address of the Redis port, if it is open.
    pub redis: Option<SocketAddr>,
    /// The origins of web pages that may call the API on the HTTP port.
    pub http_origins: Origins,
    /// The default limits of callers.
    pub limits: Limits,
    /// The collector of traces, if there is one.
    pub collector: Option<Collector>,
    /// Where the audit log is written, if it is enabled.
    pub audit: Option<AuditTo>,
    /// The newest schema of records that this daemon writes.
    pub schema: u16,
    settings: Settings,
}

/// The setting that requires callers to authenticate.
const AUTH: &str = "auth = \"required\" (--auth required)";

impl Config {
    /// Fills in the defaults and checks the settings.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] names the first invalid setting.
    pub fn check(settings: Settings) -> Result<Self, ConfigError> {
        let names_data = settings.data.is_some();
        let mut settings = settings.over(Settings::defaults());
        paths::check(&settings)?;
        let set = settings.values()?;
        if set.store == StoreKind::Memory {
            if names_data {
                let needed = "a store on disk (--store sled): a store in memory writes nothing, so leave data out";
                return Err(ConfigError::Needs { setting: "data", needed });
            }
            settings.data = None;
        }
        if set.chunk_min > set.chunk_max {
            let (setting, value) = ("chunk-min".to_owned(), grouped(set.chunk_min));
            return Err(ConfigError::OutOfRange {
                setting,
                value,
                allowed: format!("1 to chunk-max ({})", grouped(set.chunk_max)),
            });
        }
        let http_and_redis = || [("http", Some(set.http)), ("redis", settings.redis)].into_iter();
        let ports = || {
            let others = http_and_redis().filter_map(|(setting, address)| Some((setting, address?)));
            set.listen.tcp().map(|address| ("listen", address)).chain(others)
        };
        for (at, (setting, address)) in ports().enumerate() {
            if let Some((earlier, _)) = ports().take(at).find(|port| port.1 == address && address.port() != 0) {
                return Err(ConfigError::SamePort { settings: [earlier, setting], address });
            }
        }
        let tls = settings.tls.files()?;
        for (setting, address) in ports() {
            check_exposure(setting, address, set.insecure || tls.is_some() || set.auth == AuthMode::Required)?;
        }
        if set.http_auth == AuthMode::Required && set.auth == AuthMode::Off {
            return Err(ConfigError::Needs { setting: "http-auth", needed: AUTH });
        }
        if set.audit_required && settings.audit.is_none() {
            return Err(ConfigError::Needs { setting: "audit-required", needed: "audit (--audit FILE)" });
        }
        let limits = settings.caller_limits.unwrap_or_default().0;
        if !limits.is_empty() && set.auth == AuthMode::Off {
            return Err(ConfigError::Needs { setting: "caller-limits", needed: AUTH });
        }
        let (etcd_tls, etcd_credentials) = match &set.store {
            StoreKind::Etcd(_) if set.listen.tcp().next().is_none() && settings.advertise.is_none() => {
                return Err(ConfigError::Needs {
                    setting: "store = \"etcd://...\"",
                    needed: "a TCP address in listen, or advertise: other machines cannot use a Unix socket",
                });
            }
            StoreKind::Etcd(address) => settings.etcd.read(address)?,
            StoreKind::Sled | StoreKind::Memory => settings.etcd.check_unused().map(|()| (None, None))?,
        };
        settings.advertise.as_deref().map_or(Ok(()), check_advertised)?;
        check_witness(&settings, &set)?;
        let collector = otlp::collector(&settings, set.trace_ratio)?;
        Ok(Self {
            threads: Threads {
                count: settings.threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, Into::into)),
                is_pinned: set.pin_threads,
            },
            witness: settings.witness.clone(),
            new_store: settings.new_store.unwrap_or(false),
            archiving: archiving(&settings, &set)?,
            etcd_tls,
            etcd_credentials,
            advertise: settings.advertise.clone(),
            tls,
            metrics_regions: settings.metrics_regions.clone().unwrap_or_default(),
            redis: settings.redis,
            http_origins: settings.http_origins.clone().unwrap_or_default(),
            limits,
            collector,
            audit: audit(&settings, &set)?,
            schema: settings.schema.unwrap_or(SCHEMA),
            set,
            settings,
        })
    }

    /// The settings of the engine.
    pub fn engine(&self) -> EngineSettings {
        let set = &self.set;
        EngineSettings {
            requires_auth: set.auth == AuthMode::Required,
            caller_limits: self.limits,
            grant_limits: GrantLimits { lease_count: set.lease_count, packed_bytes: set.packed_bytes },
            streams: set.streams,
            chunk: Chunk { min: set.chunk_min, max: set.chunk_max },
            clock: ClockPolicy {
                tolerance: set.clock_tolerance.0,
                window_last: set.window.0,
                ..ClockPolicy::default()
            },
            trust: TrustPolicy { jump_max: set.clock_jump.0, absence_max: set.absence.0 },
            requests: RequestPolicy { retention: set.request_retention.0, undated_max: set.requests_max },
            series_on_demand: set.series_on_demand,
            history_keep: set.history_keep,
            metrics_regions: self.metrics_regions.clone(),
            schema: self.schema,
        }
    }

    /// The size at which an audit file is full, and the number of files to keep.
    pub fn audit_rotation(&self) -> Rotation {
        Rotation { bytes: self.set.audit_bytes, files: self.set.audit_files }
    }
}

/// Rejects an advertised address that no client could use.
fn check_advertised(address: &str) -> Result<(), ConfigError> {
    let uri = format!("http://{address}").parse::<Uri>().ok();
    let is_usable = uri.is_some_and(|uri| {
        let authority = uri.authority().map(|authority| authority.as_str());
        uri.host().is_some_and(|host| !host.is_empty())
            && uri.port_u16().is_some_and(|port| port > 0)
            && authority == Some(address)
    });
    let is_unspecified = address.parse::<SocketAddr>().is_ok_and(|address| address.ip().is_unspecified());
    let allowed = match (is_usable, is_unspecified) {
        (true, false) => return Ok(()),
        (true, true) => "an address that clients on other machines can connect to, such as kent-1.example.com:7600",
        (false, _) => "HOST:PORT, such as kent-1.example.com:7600",
    };
    Err(ConfigError::OutOfRange {
        setting: "advertise".to_owned(),
        value: format!("{address:?}"),
        allowed: allowed.to_owned(),
    })
}

/// Rejects an address that other machines can reach, unless `is_allowed`: the daemon uses TLS, authenticates callers,
/// or runs with --insecure.
fn check_exposure(setting: &'static str, address: SocketAddr, is_allowed: bool) -> Result<(), ConfigError> {
    match is_allowed || address.ip().is_loopback() {
        true => Ok(()),
        false => Err(ConfigError::Exposed { setting, address }),
    }
}

/// Returns whether and where the embedded store is archived, according to the settings.
fn archiving(settings: &Settings, set: &Values) -> Result<Archiving, ConfigError> {
    let needs = |needed| Err(ConfigError::Needs { setting: "archive", needed });
    match (&settings.archive, settings.no_archive) {
        (Some(_), Some(_)) => needs("no-archive to be unset"),
        (Some(_), None) if set.store != StoreKind::Sled => needs(
            "the embedded store (store = \"sled\"); to copy a store on etcd, use etcd's members, learners and snapshots",
        ),
        (Some(dir), None) if is_inside(dir, &set.data) || is_inside(&set.data, dir) => Err(ConfigError::OutOfRange {
            setting: "archive".to_owned(),
            value: dir.display().to_string(),
            allowed: format!("outside the data directory ({}), on another disk", set.data.display()),
        }),
        (Some(dir), None) if dir.join("db").exists() => Err(ConfigError::OutOfRange {
            setting: "archive".to_owned(),
            value: dir.display().to_string(),
            allowed: "a separate directory, and this is a data directory: mkdir /var/lib/kent-archive".to_owned(),
        }),
        (Some(dir), None) => Ok(Archiving::To { dir: dir.clone(), base_after: set.archive_base_bytes }),
        (None, Some(ends)) => Ok(Archiving::End { even_if_lost: ends == NoArchive::Lost }),
        (None, None) => Ok(Archiving::None),
    }
}

/// Rejects a witness in the data directory: a copy of the directory would include it.
fn check_witness(settings: &Settings, set: &Values) -> Result<(), ConfigError> {
    match &settings.witness {
        Some(dir) if set.store == StoreKind::Sled && is_inside(dir, &set.data) => Err(ConfigError::OutOfRange {
            setting: "witness".to_owned(),
            value: dir.display().to_string(),
            allowed: format!("outside the data directory ({}), on another disk", set.data.display()),
        }),
        _ => Ok(()),
    }
}

/// Returns where the audit log is written. Rejects a file in the directory of a store, because such a directory holds
/// only the store's own files.
fn audit(settings: &Settings, set: &Values) -> Result<Option<AuditTo>, ConfigError> {
    let Some(AuditTo::File(file)) = &settings.audit else { return Ok(settings.audit.clone()) };
    let dirs = [Some(&set.data), settings.archive.as_ref(), settings.witness.as_ref()];
    match dirs.into_iter().flatten().find(|dir| is_inside(file, dir)) {
        None => Ok(settings.audit.clone()),
        Some(dir) => Err(ConfigError::OutOfRange {
            setting: "audit".to_owned(),
            value: file.display().to_string(),
            allowed: format!("`stderr` or a file outside of {}, which is the store's own", dir.display()),
        }),
    }
}

/// Whether a path is in a directory or is the directory itself. Symbolic links are followed.
fn is_inside(path: &Path, dir: &Path) -> bool {
    canonical(path).starts_with(canonical(dir))
}

/// The canonical path of a file or directory, which may not exist yet.
fn canonical(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let existing = absolute.ancestors().find_map(|dir| Some((dir.canonicalize().ok()?, dir)));
    match existing.map(|(canonical, dir)| (canonical, absolute.strip_prefix(dir))) {
        Some((canonical, Ok(rest))) => canonical.join(rest),
        _ => absolute,
    }
}

impl fmt::Display for Config {
    /// Writes the settings in force as a TOML file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&toml::to_string(&self.settings).map_err(|_| fmt::Error)?)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kent_engine::host::touch::WINDOW_MAX;

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
        assert_eq!(config.set.listen.to_string(), "127.0.0.1:7600");
        let engine = config.engine();
        assert_eq!((engine.clock, engine.trust), (ClockPolicy::default(), TrustPolicy::default()));
        assert_eq!((engine.chunk, engine.requests), (Chunk::default(), RequestPolicy::default()));
    }

    #[test]
    fn ok_settings_of_a_store_in_memory_print_as_a_file_that_reads_back() {
        let memory = Settings { store: Some(StoreKind::Memory), ..Settings::default() };
        let config = Config::check(memory).expect("valid");
        Config::check(toml::from_str(&config.to_string()).expect("reads back")).expect("valid");
    }

    #[test]
    fn ok_the_shipped_file_shows_every_default() {
        let shipped: Settings = toml::from_str(include_str!("../../deploy/kentd.toml")).expect("well-formed");
        let [mut shipped, mut expected] = [shipped, Settings::defaults()]
            .map(|settings| toml::to_string(&settings).expect("text").parse::<toml::Table>().expect("a table"));
        // The shipped file is for a service, which keeps its data in a directory other than the default.
        assert!(shipped.remove("data").is_some() && expected.remove("data").is_some());
        assert_eq!(shipped, expected);
    }

    #[test]
    fn ok_flags_override_the_file() {
        let file: Settings = toml::from_str("listen = '127.0.0.1:1'\ngrace = '3s'").expect("well-formed");
        let flags = Settings { listen: "127.0.0.1:2".parse().ok(), ..Settings::default() };
        let config = Config::check(flags.over(file)).expect("valid");
        assert_eq!(config.set.listen.to_string(), "127.0.0.1:2");
        assert_eq!(config.set.grace.0, Duration::from_secs(3));
    }

    #[test]
    fn err_each_bad_value_is_named_with_its_range() {
        check_err("lease-count = 0", "lease-count is 0, but must be 1 to");
        check_err("packed-bytes = 8", "packed-bytes is 8, but must be 16 to");
        check_err("streams = 0", "streams is 0");
        check_err("threads = 0", "threads is 0");
        check_err("request-bytes = 10", "request-bytes is 10");
        check_err("grace = '2h'", "grace is 2h, but must be 0s to 1h");
        check_err("clock-tolerance = '2s'", "clock-tolerance is 2s, but must be 0s to 1s");
        check_err("window = '1s'", "window is 1s, but must be 2s to 1h");
        check_err("chunk-min = 0", "chunk-min is 0");
        check_err("chunk-min = 9\nchunk-max = 8", "chunk-min is 9, but must be 1 to chunk-max (8)");
        check_err("history-keep = 0", "history-keep is 0, but must be 1 to");
        check_err("series-on-demand = 1000001", "series-on-demand is 1_000_001, but must be 0 to 1_000_000");
        check_err("request-retention = '10ms'", "request-retention is 10ms, but must be 1s to 36500d");
        check_err("audit-bytes = 4095", "audit-bytes is 4_095, but must be 4_096 to");
        check_err("audit-files = 0", "audit-files is 0, but must be 1 to 1_000");
        check_err("data = 'a'\naudit = 'a/b'", "audit is a/b, but must be `stderr` or a file outside of a");
        check_err("data = 'a'\nwitness = 'a'", "witness is a, but must be outside the data directory (a)");
        check_err("data = 'a'\nwitness = 'a/b'", "witness is a/b, but must be outside the data directory (a)");
        check_err("audit-required = true", "audit-required needs audit (--audit FILE)");
        let empty = "is empty, but must be a directory, such as";
        check_err("data = ''", &format!("data {empty} data = \"/var/lib/kent\""));
        check_err("witness = ''", &format!("witness {empty} witness = "));
        check_err("archive = ''", &format!("archive {empty} archive = "));
        for file in ["otlp-ca", "tls-cert", "tls-key", "tls-crl", "store-ca", "store-password-file"] {
            check_err(&format!("{file} = ''"), &format!("{file} is empty, but must be a file, such as {file} = "));
        }
        check_err("data = '~/kent'", "data is ~/kent, but must be a path without ~, which only shells expand");
        check_err("audit = '~'", "audit is ~, but must be a path without ~");
        check_err("archive = 'a'\narchive-base-bytes = 5", "archive-base-bytes is 5, but must be");
        check_err("archive = 'a'\nstore = 'etcd://127.0.0.1:2379/kent'", "archive needs the embedded store");
        check_err("otlp-ca = 'a'", "otlp-ca needs otlp (--otlp http://127.0.0.1:4317)");
        check_err("trace-ratio = 0.5", "trace-ratio needs otlp (--otlp http://127.0.0.1:4317)");
        check_err("otlp = 'http://a:1'\ntrace-ratio = 1.5", "trace-ratio is 1.5, but must be 0 to 1");
        check_err("otlp = 'http://a:1'\notlp-ca = 'a'", "otlp-ca needs an https:// address in otlp");
        for url in ["", "a:1", "127.0.0.1:4317", "grpc://a:1", "http://", "http://a:1/v1/traces"] {
            check_err(&format!("otlp = '{url}'"), "but must be http://HOST:PORT or https://HOST:PORT, such as");
        }
        check_err("archive = 'a'\nno-archive = 'ended'", "archive needs no-archive to be unset");
        for address in ["foo", "", ":7600", "foo:0", "foo:99999", "http://foo:7600", "foo:7600/x", "a b:1"] {
            check_err(&format!("advertise = '{address}'"), "but must be HOST:PORT, such as");
        }
        for address in ["0.0.0.0:7600", "[::]:7600"] {
            let expected =
                format!("advertise is \"{address}\", but must be an address that clients on other machines can");
            check_err(&format!("advertise = '{address}'"), &expected);
        }
        for setting in ["store-user", "store-ca", "store-cert", "store-key", "store-password-file"] {
            for store in ["sled", "memory"] {
                let expected = format!("{setting} needs a store in etcd (--store etcd://HOST:PORT/PREFIX");
                check_err(&format!("store = '{store}'\n{setting} = 'x'"), &expected);
            }
        }
        check_err("store = 'memory'\ndata = 'd'", "data needs a store on disk (--store sled)");
        check_err("listen = '0.0.0.0:7600'", "--insecure");
        check_err("http = '[::]:7600'", "--insecure");
        check_err("http-auth = 'required'", "http-auth needs auth = \"required\" (--auth required)");
        check_err("caller-limits = 'ids=10k/s'", "caller-limits needs auth = \"required\" (--auth required)");
        check_err("listen = 'unix:a,0.0.0.0:7600'", "listen is 0.0.0.0:7600, which other machines can reach");
        check_err("listen = 'unix:a'\nstore = 'etcd://127.0.0.1:1/k'", "needs a TCP address in listen, or advertise");
        check_err("connections = 0", "connections is 0, but must be 1 to");
        check_err("connections-per-address = 0", "connections-per-address is 0, but must be 1 to");
        check_err("listen = '127.0.0.1:7601'", "listen and http are both 127.0.0.1:7601: give two ports");
        check_err("redis = '127.0.0.1:7600'", "listen and redis are both 127.0.0.1:7600: give two ports");
        check_err("redis = '127.0.0.1:7601'", "http and redis are both 127.0.0.1:7601: give two ports");
        check_err("redis = '0.0.0.0:6379'", "redis is 0.0.0.0:6379, which other machines can reach");
    }

    #[test]
    fn ok_bounds_are_allowed_and_window_max_is_the_longest_window() {
        for toml in [
            "advertise = 'kent-1:7600'",
            "advertise = '[::1]:1'",
            "window = '1h'",
            "window = '2s'",
            "chunk-min = 1\nchunk-max = 1",
            "history-keep = 1",
            "auth = 'required'\nlisten = '0.0.0.0:7600'",
            "auth = 'required'\nhttp-auth = 'required'",
            "auth = 'required'\ncaller-limits = 'ids=10k/s, streams=10'",
            "threads = 1024",
            "audit = 'stderr'",
            "audit = 'stderr'\naudit-required = true",
            "data = './~'",
            "data = 'a~'",
            "data = 'a'\naudit = 'audit.jsonl'",
            "listen = 'unix:/run/kent/kent.sock'",
            "listen = '127.0.0.1:0'\nhttp = '127.0.0.1:0'",
        ] {
            Config::check(toml::from_str(toml).expect("well-formed")).expect(toml);
        }
        let longest = Settings { window: Some(Span(WINDOW_MAX + Duration::from_nanos(1))), ..Settings::default() };
        assert!(Config::check(longest).is_err());
    }

    #[test]
    fn ok_archiving_follows_the_settings() {
        let archiving =
            |toml: &str| Config::check(toml::from_str(toml).expect("well-formed")).expect("valid").archiving;
        let to = Archiving::To { dir: "a".into(), base_after: 131_072 };
        assert_eq!(archiving("archive = 'a'\narchive-base-bytes = 131072"), to);
        assert_eq!(archiving("no-archive = 'ended'"), Archiving::End { even_if_lost: false });
        assert_eq!(archiving("no-archive = 'lost'"), Archiving::End { even_if_lost: true });
        assert_eq!(archiving(""), Archiving::None);
    }

    #[test]
    fn err_an_archive_is_outside_the_data_directory() {
        let folder = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(folder.path().join("real")).expect("created");
        std::os::unix::fs::symlink(folder.path().join("real"), folder.path().join("link")).expect("a link");
        let check = |data: &str, archive: &str| {
            let [data, archive] = [data, archive].map(|name| Some(folder.path().join(name)));
            Config::check(Settings { data, archive, ..Settings::default() })
        };
        for (data, archive) in
            [("real", "real"), ("real", "link"), ("link", "real/a"), ("new", "new/a"), ("real/d", "real")]
        {
            let error = check(data, archive).expect_err(archive).to_string();
            assert!(error.contains("must be outside the data directory"), "{error}");
        }
        std::fs::create_dir(folder.path().join("other")).expect("created");
        std::fs::write(folder.path().join("other/db"), "").expect("written");
        let error = check("new", "other").expect_err("a data directory").to_string();
        assert!(error.contains("a separate directory, and this is a data directory"), "{error}");
        for (data, archive) in [("real", "real-archive"), ("new", "link")] {
            check(data, archive).expect(archive);
        }
    }

    #[test]
    fn err_a_misspelled_setting_is_refused() {
        let error = toml::from_str::<Settings>("http = 'localhost:1'").expect_err("a host name").to_string();
        assert!(error.contains("expected IP:PORT, such as 127.0.0.1:7600"), "{error}");
        assert!(toml::from_str::<Settings>("lisen = '127.0.0.1:1'").is_err());
    }
}
