//! Advice for failures of TLS: another scheme, another port, or another certificate.

use crate::connect;

/// Returns a hint for a failed connection to an endpoint, depending on the cause.
pub(super) fn advice(endpoint: &str, cause: &str) -> Option<String> {
    let address = endpoint.trim_start_matches("https://").trim_end_matches('/');
    if cause.contains("CaUsedAsEndEntity") {
        return Some(
            "The daemon presents a CA certificate: give kentd a certificate that the CA has signed, and name the CA with --ca."
                .to_owned(),
        );
    }
    if ["certificate expired", "certificate not valid yet"].iter().any(|known| cause.contains(known)) {
        return Some(
            "If this machine's clock is right, the operator must replace the daemon's certificate (kentd --tls-cert)."
                .to_owned(),
        );
    }
    if cause.starts_with("invalid peer certificate") {
        return Some(
            "--ca FILE must name the CA of the daemon's certificate, and the certificate must be for the endpoint's host."
                .to_owned(),
        );
    }
    if cause.contains("InvalidContentType") {
        return Some(format!(
            "The server there does not speak TLS: use http://{address}, without --ca, --cert and --key."
        ));
    }
    cause.contains("NoApplicationProtocol").then(|| {
        format!("{address} is an HTTP port: use the gRPC port of kentd, by default 7600, as in --endpoint https://HOST:7600.")
    })
}

/// Returns a hint to add to the message about a connection that broke for this cause. A daemon that requires TLS or a
/// certificate may have closed the connection.
pub(super) fn hint(cause: &str) -> &'static str {
    hint_for(cause, connect::has_certificate())
}

fn hint_for(cause: &str, has_certificate: bool) -> &'static str {
    match ["broken pipe", "CertificateRequired", "fatal alert"].iter().any(|known| cause.contains(known)) {
        false => "",
        true if has_certificate => {
            "; the daemon may not accept the certificate of --cert: it must be valid, and signed by a CA of `kentd --tls-client-ca`"
        }
        true => {
            "; if the daemon uses TLS, name its CA with --ca, and your certificate with --cert and --key if it asks for one"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_a_cause_gets_advice() {
        for (cause, expected) in [
            (
                "received corrupt message of type InvalidContentType",
                Some("use http://a:1, without --ca, --cert and --key"),
            ),
            ("received fatal alert: NoApplicationProtocol", Some("a:1 is an HTTP port: use the gRPC port")),
            ("invalid peer certificate: UnknownIssuer", Some("--ca FILE")),
            (
                "invalid peer certificate: certificate expired: verification time 9 (UNIX), but certificate is not valid after 7",
                Some("operator must replace the daemon's certificate (kentd --tls-cert)"),
            ),
            ("invalid peer certificate: certificate not valid yet: verification time 9", Some("this machine's clock")),
            ("invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))", Some("that the CA has signed")),
            ("Connection refused (os error 111)", None),
        ] {
            let advice = advice("https://a:1/", cause);
            assert_eq!(advice.is_some(), expected.is_some(), "{cause}");
            assert!(advice.unwrap_or_default().contains(expected.unwrap_or_default()), "{cause}");
        }
        let broken = "stream closed because of a broken pipe";
        assert!(hint_for(broken, true).contains("--tls-client-ca"));
        assert!(hint_for(broken, false).contains("--cert and --key"));
        assert_eq!(hint_for("connection reset", true), "");
    }
}
