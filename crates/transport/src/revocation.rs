//! Lists of revoked certificates: whether they can be used, and whether they have an effect.

use tokio_rustls::rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use x509_cert::{
    Certificate,
    crl::CertificateList,
    der::{Decode, Error, SliceReader, Tag, asn1::AnyRef},
    name::Name,
};

/// Whether a list has version 1, which rustls cannot read: its error does not say why.
pub(super) fn has_old(lists: &[CertificateRevocationListDer<'_>]) -> bool {
    lists.iter().any(|list| is_old(list).unwrap_or(false))
}

/// Whether a list has version 1: unlike a list of version 2, it does not begin with its version.
fn is_old(list: &[u8]) -> Result<bool, Error> {
    let signed = AnyRef::from_der(list)?;
    let contents = AnyRef::decode(&mut SliceReader::new(signed.value())?)?;
    Ok(Tag::peek(&SliceReader::new(contents.value())?)? != Tag::Integer)
}

/// The issuers of the lists that were not issued by one of these CAs. Such a list has an effect only for an
/// intermediate CA.
pub(super) fn strangers(
    cas: &[CertificateDer<'_>],
    lists: &[CertificateRevocationListDer<'_>],
) -> impl Iterator<Item = String> {
    let is_ca = |issuer: &Name| {
        cas.iter().any(|ca| Certificate::from_der(ca).is_ok_and(|ca| ca.tbs_certificate().subject() == issuer))
    };
    let issuers = lists.iter().filter_map(|list| Some(<CertificateList>::from_der(list).ok()?.tbs_cert_list.issuer));
    issuers.filter(move |issuer| !is_ca(issuer)).map(|issuer| issuer.to_string())
}
