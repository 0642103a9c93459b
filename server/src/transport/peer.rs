//! The other end of a connection: its address, and the certificate that it has proved to own.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use tokio_rustls::rustls::pki_types::CertificateDer;
use x509_parser::{error::X509Error, extensions::GeneralName, nom, parse_x509_certificate};

/// The other end of a connection. Every request on the connection carries it.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) address: Address,
    pub(crate) certificate: Option<Arc<Certificate>>,
}

/// Where a connection comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp(SocketAddr),
    Unix(Process),
}

/// The process at the other end of a Unix socket, as the kernel recorded it when the process connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: Option<i32>,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// The party at an address, without the port or the process, which differ between its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Host {
    Ip(IpAddr),
    User(u32),
}

impl Address {
    pub(crate) fn host(&self) -> Host {
        match self {
            Self::Tcp(address) => Host::Ip(address.ip().to_canonical()),
            Self::Unix(process) => Host::User(process.uid),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(Process { pid, uid, gid }) => {
                write!(f, "unix:uid={uid},gid={gid}")?;
                pid.map_or(Ok(()), |pid| write!(f, ",pid={pid}"))
            }
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(ip) => ip.fmt(f),
            Self::User(uid) => write!(f, "local user {uid}"),
        }
    }
}

/// The parts of a caller's certificate that the daemon uses. A CA that it trusts has signed the certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Certificate {
    /// The name of the caller: the first URI of the subject's alternative names, as in SPIFFE, else the first DNS name.
    pub(crate) name: Option<String>,
    /// The end of its validity, since the Unix epoch.
    pub(crate) not_after: Duration,
}

impl Certificate {
    /// Reads a certificate. The common name does not count: nothing keeps a CA from signing any text there.
    ///
    /// # Errors
    ///
    /// If it is not an X.509 certificate.
    pub(crate) fn read(der: &CertificateDer<'_>) -> Result<Self, nom::Err<X509Error>> {
        let (_, certificate) = parse_x509_certificate(der)?;
        let names = certificate.subject_alternative_name().ok().flatten();
        let names = names.map(|names| names.value.general_names.as_slice()).unwrap_or_default();
        let uri = names.iter().find_map(|name| match name {
            GeneralName::URI(uri) => Some(*uri),
            _ => None,
        });
        let dns = names.iter().find_map(|name| match name {
            GeneralName::DNSName(dns) => Some(*dns),
            _ => None,
        });
        let not_after = u64::try_from(certificate.validity().not_after.timestamp()).unwrap_or(0);
        Ok(Self { name: uri.or(dns).map(str::to_owned), not_after: Duration::from_secs(not_after) })
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SanType, date_time_ymd};

    use super::*;

    fn read(names: &[SanType]) -> Certificate {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "admin");
        params.subject_alt_names = names.to_vec();
        params.not_after = date_time_ymd(2030, 1, 1);
        let certificate = params.self_signed(&KeyPair::generate().expect("a key")).expect("a certificate");
        Certificate::read(certificate.der()).expect("well-formed")
    }

    #[test]
    fn ok_a_caller_is_named_by_its_uri_or_its_dns_name() {
        let dns = |name: &str| SanType::DnsName(name.try_into().expect("ASCII"));
        let uri = |name: &str| SanType::URI(name.try_into().expect("ASCII"));
        let cases = [
            (vec![], None),
            (vec![dns("orders.example")], Some("orders.example")),
            (vec![dns("orders.example"), uri("spiffe://example/orders")], Some("spiffe://example/orders")),
            (vec![SanType::IpAddress([127, 0, 0, 1].into())], None),
        ];
        for (names, expected) in cases {
            let certificate = read(&names);
            assert_eq!(certificate.name.as_deref(), expected, "{names:?}");
            assert_eq!(certificate.not_after.as_secs(), 1_893_456_000);
        }
    }

    #[test]
    fn err_other_bytes() {
        assert!(Certificate::read(&CertificateDer::from_slice(b"certificate")).is_err());
    }
}
