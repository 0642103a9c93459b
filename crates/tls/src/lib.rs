//! Client-side TLS, to daemons and to etcd, with certificates that may change while the program runs.
//!
//! Every new connection reads the files again, so a service whose certificate is replaced every hour needs no restart.
//! If the new files cannot be used, for example because the key does not match the certificate, the previous ones stay
//! in use. Open connections continue.

mod certificates;
mod contents;
mod explained;
mod target;

pub use certificates::{CertificateError, Certificates, Pem, Pems};
pub use contents::{Needed, Unfit, certificates, private_key, revoked};
pub use explained::explained;
pub use target::{BadHost, NotASocket, Target};
