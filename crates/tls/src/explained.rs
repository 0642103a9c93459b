//! Explains errors of rustls in plain words.

use std::{error::Error, io};

use tokio_rustls::rustls::{self, AlertDescription, CertificateError, InconsistentKeys, InvalidMessage};

/// Returns the message of an error. Common errors of rustls are explained in plain words.
pub fn explained(error: &(dyn Error + 'static)) -> String {
    let inner = || error.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref();
    let explained = error.downcast_ref().or_else(inner).and_then(in_plain_words);
    explained.unwrap_or_else(|| error.to_string())
}

fn in_plain_words(error: &rustls::Error) -> Option<String> {
    let text = match error {
        rustls::Error::InvalidCertificate(problem) => return certificate(problem),
        rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => "the key does not match the certificate",
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => "the other end does not speak TLS",
        rustls::Error::NoCertificatesPresented => "the other end sent no certificate",
        rustls::Error::AlertReceived(alert) => match alert {
            AlertDescription::CertificateRequired => "the other end requires a certificate",
            AlertDescription::CertificateExpired => "the other end rejects the certificate, because it has expired",
            AlertDescription::CertificateRevoked => "the other end rejects the certificate, because it is revoked",
            AlertDescription::UnknownCA => "the other end rejects the certificate, because it does not trust its CA",
            AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnsupportedCertificate => "the other end rejects the certificate",
            AlertDescription::NoApplicationProtocol => "the other end does not speak HTTP/2",
            AlertDescription::ProtocolVersion => "the other end supports neither TLS 1.2 nor TLS 1.3",
            _ => return None,
        },
        _ => return None,
    };
    Some(text.to_owned())
}

fn certificate(problem: &CertificateError) -> Option<String> {
    let text = match problem {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "the certificate has expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the certificate is not valid yet"
        }
        CertificateError::Revoked => "the certificate is revoked",
        CertificateError::UnknownIssuer => "the certificate is not signed by a trusted CA",
        CertificateError::BadSignature => "the signature of the certificate is not valid",
        CertificateError::BadEncoding => "the certificate cannot be decoded",
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "the certificate is for another use (extended key usage)"
        }
        CertificateError::NotValidForName => "the certificate is for another host",
        CertificateError::NotValidForNameContext { expected, presented } => {
            // webpki writes names as `DnsName("a.example")` and `IpAddress(127.0.0.1)`.
            let name = |name: &String| name.split(['(', ')', '"']).rfind(|part| !part.is_empty()).map(str::to_owned);
            let names: Vec<_> = presented.iter().filter_map(name).collect();
            let expected = expected.to_str();
            return Some(match names.is_empty() {
                true => format!(
                    "the certificate has no subject alternative names, so it is for no host (a common name does not count); it needs \
                     {expected}"
                ),
                false => format!("the certificate is for {}, not for {expected}", names.join(", ")),
            });
        }
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            "the certificate is a CA certificate"
        }
        CertificateError::Other(other) if other.to_string().contains("UnsupportedCertVersion") => {
            "the certificate has version 1, but version 3 is needed: `openssl x509 -req` writes it with the option -extfile FILE"
        }
        _ => return None,
    };
    Some(text.to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::{OtherError, pki_types::ServerName};

    use super::*;

    #[test]
    fn ok_errors_that_people_meet_are_explained() {
        let expected = ServerName::try_from("b.example").expect("a name");
        let presented = vec!["DnsName(\"a.example\")".to_owned(), "IpAddress(127.0.0.1)".to_owned()];
        let nameless = CertificateError::NotValidForNameContext { expected: expected.clone(), presented: Vec::new() };
        let cases = [
            (
                nameless.into(),
                "the certificate has no subject alternative names, so it is for no host (a common name does not count); it needs b.example",
            ),
            (rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch), "the key does not match the certificate"),
            (CertificateError::UnknownIssuer.into(), "the certificate is not signed by a trusted CA"),
            (
                CertificateError::Other(OtherError(Arc::new(io::Error::other("UnsupportedCertVersion")))).into(),
                "the certificate has version 1, but version 3 is needed: `openssl x509 -req` writes it with the option -extfile FILE",
            ),
            (
                CertificateError::NotValidForNameContext { expected, presented }.into(),
                "the certificate is for a.example, 127.0.0.1, not for b.example",
            ),
            (
                rustls::Error::AlertReceived(AlertDescription::CertificateRequired),
                "the other end requires a certificate",
            ),
            (rustls::Error::General("anything".to_owned()), "unexpected error: anything"),
        ];
        for (error, text) in cases {
            assert_eq!(explained(&error), text);
            assert_eq!(explained(&io::Error::other(error)), text);
        }
        assert_eq!(explained(&io::Error::other("refused")), "refused");
    }
}
