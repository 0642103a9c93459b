//! Lists of revoked certificates: whether they can be used, and whether they have an effect.

use tokio_rustls::rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use x509_parser::{parse_x509_certificate, parse_x509_crl, prelude::X509Version};

/// Whether a list has version 1, which rustls cannot read: its error does not say why.
pub(super) fn has_old(lists: &[CertificateRevocationListDer<'_>]) -> bool {
    let is_old = |list: &CertificateRevocationListDer<'_>| {
        parse_x509_crl(list).is_ok_and(|(_, list)| !matches!(list.version(), Some(X509Version::V2)))
    };
    lists.iter().any(is_old)
}

/// The issuers of the lists that were not issued by one of these CAs. Such a list has an effect only for an
/// intermediate CA.
pub(super) fn strangers(
    cas: &[CertificateDer<'_>],
    lists: &[CertificateRevocationListDer<'_>],
) -> impl Iterator<Item = String> {
    let is_ca = |issuer: &[u8]| {
        cas.iter().any(|ca| parse_x509_certificate(ca).is_ok_and(|(_, ca)| ca.subject().as_raw() == issuer))
    };
    let lists = lists.iter().filter_map(|list| parse_x509_crl(list).ok());
    let strangers = lists.filter(move |(_, list)| !is_ca(list.issuer().as_raw()));
    strangers.map(|(_, list)| list.issuer().to_string())
}
