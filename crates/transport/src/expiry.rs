//! Metrics and warnings about the expiry of certificates and revocation lists.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use kent_ids::UnixNanos;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
    registry::{Registry, Unit},
};
use tokio_rustls::rustls::pki_types::{CertificateDer, CertificateRevocationListDer, pem::PemObject};
use tracing::warn;
use x509_cert::{crl::CertificateList, der::Decode};

use super::peer::Certificate;

/// The files, and when they expire.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Expiry(Vec<File>);

#[derive(Debug, PartialEq, Eq)]
struct File {
    setting: &'static str,
    path: PathBuf,
    /// When the first certificate or list in the file expires, as a time since 1970.
    end: Duration,
}

/// The path of a PEM file, and its contents.
type Pem<'p> = (&'p Path, &'p [u8]);

/// The metrics of the files.
#[derive(Clone, Debug, Default)]
pub(super) struct CertificateMetrics(Family<FileLabel, Gauge>);

/// The label that names a file by its setting.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FileLabel {
    setting: &'static str,
}

impl Expiry {
    /// Reads PEM files that have already been checked.
    pub(super) fn of(cert: Pem<'_>, client_ca: Option<Pem<'_>>, crl: Option<Pem<'_>>) -> Self {
        let file = |setting, (path, pem): Pem<'_>, end: fn(&[u8]) -> Option<Duration>| {
            Some(File { setting, path: path.to_owned(), end: end(pem)? })
        };
        let files = [
            file("tls-cert", cert, first_end),
            client_ca.and_then(|pem| file("tls-client-ca", pem, first_end)),
            crl.and_then(|pem| file("tls-crl", pem, first_update)),
        ];
        Self(files.into_iter().flatten().collect())
    }

    /// The settings and files that have expired at `now`.
    pub(super) fn expired(&self, now: UnixNanos) -> impl Iterator<Item = (&'static str, &Path)> {
        let is_past = move |end: Duration| i128::try_from(end.as_nanos()).is_ok_and(|end| end <= now.get());
        self.0.iter().filter(move |file| is_past(file.end)).map(|file| (file.setting, file.path.as_path()))
    }

    /// The settings and files, and when each expires, as a time since 1970.
    pub(super) fn ends(&self) -> impl Iterator<Item = (&'static str, &Path, Duration)> {
        self.0.iter().map(|file| (file.setting, file.path.as_path(), file.end))
    }

    /// Logs which files have expired at `now`.
    pub(super) fn warn(&self, now: UnixNanos) {
        for (setting, file) in self.expired(now) {
            let file = file.display();
            warn!(setting, %file, "the file of this setting has expired, so TLS connections may fail; replace it");
        }
    }
}

impl CertificateMetrics {
    pub(super) fn register(&self, kent: &mut Registry) {
        kent.register_with_unit(
            "certificate_expiry_timestamp",
            "Time when the first certificate or revocation list in a file expires",
            Unit::Seconds,
            self.0.clone(),
        );
    }

    /// Sets the metrics of these files, and removes the metrics of all other files.
    pub(super) fn set(&self, expiry: &Expiry) {
        self.0.clear();
        for File { setting, end, .. } in &expiry.0 {
            self.0.get_or_create(&FileLabel { setting }).set(i64::try_from(end.as_secs()).unwrap_or(i64::MAX));
        }
    }
}

/// When the first of these certificates expires.
fn first_end(pem: &[u8]) -> Option<Duration> {
    let certificates = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok);
    certificates.filter_map(|certificate| Some(Certificate::read(&certificate).ok()?.not_after)).min()
}

/// When the first of these revocation lists expires.
fn first_update(pem: &[u8]) -> Option<Duration> {
    let lists = CertificateRevocationListDer::pem_slice_iter(pem).filter_map(Result::ok);
    let lists = lists.filter_map(|list| <CertificateList>::from_der(&list).ok());
    lists.filter_map(|list| Some(list.tbs_cert_list.next_update?.to_unix_duration())).min()
}
