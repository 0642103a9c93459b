//! Reads certificates and keys from PEM. Errors state what is needed and what the text contains instead.

use std::fmt;

use thiserror::Error;
use tokio_rustls::rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer,
    pem::{self, PemObject},
};

/// What PEM text should contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needed {
    /// One or more certificates.
    Certificate,
    /// An unencrypted private key.
    Key,
    /// Lists of revoked certificates.
    Revoked,
}

/// The error for PEM text that does not contain what is needed.
#[derive(Debug, Error)]
#[error("{}", self.explain())]
pub struct Unfit {
    needed: Needed,
    /// The file, for messages.
    file: String,
    found: Found,
}

/// What the text contains instead.
#[derive(Debug)]
enum Found {
    EncryptedKey,
    /// The labels of its sections, such as `PUBLIC KEY`.
    Other(Vec<String>),
    Der,
    Empty,
    NoPem,
    /// A section of the right kind that is damaged.
    Damaged(pem::Error),
}

impl Needed {
    /// Checks that the text contains what is needed. Messages name `file` as its source.
    ///
    /// # Errors
    ///
    /// [`Unfit`].
    pub fn check(self, text: &[u8], file: impl fmt::Display) -> Result<(), Unfit> {
        match self {
            Self::Certificate => certificates(text, file).map(drop),
            Self::Key => private_key(text, file).map(drop),
            Self::Revoked => revoked(text, file).map(drop),
        }
    }

    /// Returns whether a section with this label contains what is needed.
    fn has_label(self, label: &str) -> bool {
        match self {
            Self::Certificate => label == "CERTIFICATE",
            Self::Key => matches!(label, "PRIVATE KEY" | "RSA PRIVATE KEY" | "EC PRIVATE KEY"),
            Self::Revoked => label == "X509 CRL",
        }
    }

    /// Returns the openssl command that reads such a section.
    fn command(self) -> &'static str {
        match self {
            Self::Certificate => "x509",
            Self::Key => "pkey",
            Self::Revoked => "crl",
        }
    }

    fn unfit(self, text: &[u8], file: impl fmt::Display, problem: pem::Error) -> Unfit {
        Unfit { needed: self, file: file.to_string(), found: Found::new(self, text, problem) }
    }
}

impl fmt::Display for Needed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Certificate => "a certificate",
            Self::Key => "a private key",
            Self::Revoked => "a list of revoked certificates",
        })
    }
}

/// Reads all certificates in the text; there must be at least one.
///
/// # Errors
///
/// [`Unfit`].
pub fn certificates(text: &[u8], file: impl fmt::Display) -> Result<Vec<CertificateDer<'static>>, Unfit> {
    all(text).map_err(|problem| Needed::Certificate.unfit(text, file, problem))
}

/// Reads the private key in the text.
///
/// # Errors
///
/// [`Unfit`].
pub fn private_key(text: &[u8], file: impl fmt::Display) -> Result<PrivateKeyDer<'static>, Unfit> {
    PrivateKeyDer::from_pem_slice(text).map_err(|problem| Needed::Key.unfit(text, file, problem))
}

/// Reads all lists of revoked certificates in the text; there must be at least one.
///
/// # Errors
///
/// [`Unfit`].
pub fn revoked(text: &[u8], file: impl fmt::Display) -> Result<Vec<CertificateRevocationListDer<'static>>, Unfit> {
    all(text).map_err(|problem| Needed::Revoked.unfit(text, file, problem))
}

fn all<T: PemObject>(text: &[u8]) -> Result<Vec<T>, pem::Error> {
    let items: Vec<T> = T::pem_slice_iter(text).collect::<Result<_, _>>()?;
    if items.is_empty() { Err(pem::Error::NoItemsFound) } else { Ok(items) }
}

impl Found {
    fn new(needed: Needed, text: &[u8], problem: pem::Error) -> Self {
        let text_lines = String::from_utf8_lossy(text);
        let label = |line: &str| Some(line.trim().strip_prefix("-----BEGIN ")?.strip_suffix("-----")?.to_owned());
        let labels: Vec<_> = text_lines.lines().filter_map(label).collect();
        // PKCS #8 marks an encrypted key in the label, and the older formats in a header.
        let is_encrypted = |label: &String| label == "ENCRYPTED PRIVATE KEY";
        if needed == Needed::Key && (labels.iter().any(is_encrypted) || text_lines.contains("\nProc-Type: 4,ENCRYPTED"))
        {
            return Self::EncryptedKey;
        }
        match labels.is_empty() {
            false if labels.iter().any(|label| needed.has_label(label)) => Self::Damaged(problem),
            false => Self::Other(labels),
            true if text.is_empty() => Self::Empty,
            // These bytes begin an ASN.1 sequence of 128 to 65,535 bytes; only very small keys are shorter.
            true if text.starts_with(&[0x30, 0x82]) || text.starts_with(&[0x30, 0x81]) => Self::Der,
            true => Self::NoPem,
        }
    }
}

impl Unfit {
    fn explain(&self) -> String {
        let Self { needed, file, found } = self;
        let command = needed.command();
        match found {
            Found::EncryptedKey => format!(
                "the private key in {file} is encrypted, and only an unencrypted one can be used: decrypt it with `openssl pkey -in {file} -out {file}.plain`, and give {file}.plain"
            ),
            Found::Other(labels) => format!("{file} holds {}, not {needed}", named(labels)),
            Found::Der => format!(
                "{file} is not in PEM but seems to be in DER: convert it with `openssl {command} -inform der -in {file} -out {file}.pem`, and give {file}.pem"
            ),
            Found::Empty => format!("{file} is empty, not {needed}"),
            Found::NoPem => {
                format!("{file} is not in PEM: it has no line that begins with -----BEGIN, so it is not {needed}")
            }
            Found::Damaged(pem::Error::MissingSectionEnd { end_marker }) => {
                let label = String::from_utf8_lossy(end_marker);
                format!("{needed} in {file} was cut short: the line -----END {label}----- is missing")
            }
            Found::Damaged(pem::Error::IllegalSectionStart { line }) => {
                format!("{needed} in {file} is damaged: {:?} is not a line of PEM", String::from_utf8_lossy(line))
            }
            Found::Damaged(problem) => format!("{needed} in {file} is damaged: {problem}"),
        }
    }
}

/// Names what the sections with these labels contain, each kind once.
fn named(labels: &[String]) -> String {
    let name = |label: &String| match label.as_str() {
        "CERTIFICATE" => "a certificate".to_owned(),
        "CERTIFICATE REQUEST" | "NEW CERTIFICATE REQUEST" => "a certificate request".to_owned(),
        "ENCRYPTED PRIVATE KEY" => "an encrypted private key".to_owned(),
        "PUBLIC KEY" | "RSA PUBLIC KEY" => "a public key".to_owned(),
        "X509 CRL" => "a list of revoked certificates".to_owned(),
        label if label.ends_with("PRIVATE KEY") => "a private key".to_owned(),
        label => format!("{label:?}"),
    };
    let mut names: Vec<_> = labels.iter().map(name).collect();
    names.sort();
    names.dedup();
    names.join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pem(label: &str, body: &str) -> String {
        format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n")
    }

    #[test]
    fn err_a_text_that_holds_something_else() {
        let legacy = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,5CA1AB1E5CA1AB1E5CA1AB1E5CA1AB1E\n\nAAAA";
        let decrypt = "the private key in f is encrypted, and only an unencrypted one can be used: decrypt it with `openssl pkey -in f -out f.plain`, and give f.plain";
        for (needed, text, expected) in [
            (Needed::Key, pem("ENCRYPTED PRIVATE KEY", "AAAA"), decrypt),
            (Needed::Key, pem("EC PRIVATE KEY", legacy), decrypt),
            (Needed::Key, pem("CERTIFICATE", "AAAA"), "f holds a certificate, not a private key"),
            (Needed::Key, pem("PUBLIC KEY", "AAAA"), "f holds a public key, not a private key"),
            (Needed::Certificate, pem("EC PRIVATE KEY", "AAAA"), "f holds a private key, not a certificate"),
            (
                Needed::Certificate,
                pem("ENCRYPTED PRIVATE KEY", "AAAA"),
                "f holds an encrypted private key, not a certificate",
            ),
            (
                Needed::Revoked,
                pem("CERTIFICATE", "AAAA") + &pem("CERTIFICATE", "AAAA"),
                "f holds a certificate, not a list of revoked certificates",
            ),
            (Needed::Certificate, pem("CERTIFICATE", "A?"), "a certificate in f is damaged: "),
            (
                Needed::Certificate,
                "-----BEGIN CERTIFICATE-----\nAAAA\n".to_owned(),
                "a certificate in f was cut short: the line -----END CERTIFICATE----- is missing",
            ),
            (
                Needed::Certificate,
                pem("CERTIFICATE", "AAAA") + "-----BEGIN CERTI\n",
                "a certificate in f is damaged: \"-----BEGIN CERTI\" is not a line of PEM",
            ),
            (Needed::Certificate, String::new(), "f is empty, not a certificate"),
            (Needed::Certificate, "hello".to_owned(), "f is not in PEM: it has no line"),
            (Needed::Certificate, "0\u{81}".to_owned(), "f is not in PEM: it has no line"),
        ] {
            let error = needed.check(text.as_bytes(), "f").expect_err(&text).to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        let der = Needed::Certificate.check(&[0x30, 0x82, 1, 1], "f").expect_err("DER").to_string();
        assert!(der.contains("`openssl x509 -inform der -in f -out f.pem`"), "{der}");
    }

    #[test]
    fn ok_a_text_that_also_holds_what_is_needed() {
        let both = pem("CERTIFICATE", "AAAA") + &pem("PRIVATE KEY", "AAAA");
        Needed::Key.check(both.as_bytes(), "f").expect("a key");
        assert_eq!(certificates(both.as_bytes(), "f").expect("a certificate").len(), 1);
    }
}
