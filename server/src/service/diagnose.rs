//! The answer of `Admin.Diagnose`.

use std::time::Duration;

use kent_engine::fill::Fill;
use kent_proto::v1::{CertificateFile, Diagnosis, Directory, Etcd, EtcdMember, Forecast, Status, StoreSize};
use kent_store::{Server, Servers, SledSizes};

use crate::maintenance::diagnosis::{self, Measured};

/// Builds the answer from the status and the measurements.
pub(super) fn message(status: Status, measured: Measured) -> Diagnosis {
    let Measured { directories, sizes, servers, process, full_first, certificates } = measured;
    Diagnosis {
        status: Some(status),
        directories: directories.into_iter().map(directory).collect(),
        store_size: sizes.map(|SledSizes { all, journal }| StoreSize { bytes: all, journal_bytes: journal }),
        etcd: servers.map(etcd),
        open_files: process.open_files,
        open_files_max: process.open_files_max,
        full_first: full_first.iter().map(forecast).collect(),
        certificates: certificates
            .into_iter()
            .map(|(setting, path, ends_in_seconds)| CertificateFile {
                setting: setting.to_owned(),
                path: path.display().to_string(),
                ends_in_seconds,
            })
            .collect(),
    }
}

fn directory(directory: diagnosis::Directory) -> Directory {
    let message = Directory {
        setting: directory.setting.to_owned(),
        path: directory.path.display().to_string(),
        ..Directory::default()
    };
    match directory.disk {
        Ok(disk) => Directory {
            free_bytes: disk.free,
            total_bytes: disk.total,
            sync_micros: micros(disk.sync),
            sync_max_micros: micros(disk.sync_max),
            ..message
        },
        Err(problem) => Directory { problem, ..message },
    }
}

fn etcd(servers: Servers) -> Etcd {
    let Servers { read, servers, alarms } = servers;
    let (read_micros, problem) = match read {
        Ok(took) => (Some(micros(took)), String::new()),
        Err(problem) => (None, problem),
    };
    Etcd { read_micros, problem, members: servers.into_iter().map(member).collect(), alarms }
}

fn member(server: Server) -> EtcdMember {
    let Server { name, endpoint, is_addressed, is_learner, state } = server;
    let message = EtcdMember { name, endpoint, addressed: is_addressed, learner: is_learner, ..EtcdMember::default() };
    match state {
        None => message,
        Some(Err(problem)) => EtcdMember { problem, ..message },
        Some(Ok(state)) => EtcdMember {
            version: state.version,
            latency_micros: micros(state.latency),
            database_bytes: state.database_bytes,
            used_bytes: state.used_bytes,
            quota_bytes: state.quota_bytes,
            leader: state.is_leader,
            has_leader: state.has_leader,
            errors: state.errors,
            ..message
        },
    }
}

fn forecast(fill: &Fill) -> Forecast {
    Forecast {
        source: fill.source.to_string(),
        capacity: fill.capacity.to_string(),
        reserved: fill.reserved.to_string(),
        full_in_seconds: fill.full_in.unwrap_or(f64::INFINITY),
        capped: fill.is_capped,
        expandable_bits: fill.expandable_bits.into(),
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
