//! An intruder tries to use both ports, with and without TLS, and with certificates that give no access.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::Path,
};

use rcgen::{CertificateParams, KeyPair};
use serde_json::Value;

use super::{anonymous, make, missing, packed, refusal};
use crate::it::{
    harness::{Daemon, data_dir},
    tls::{Ca, Files, client, is_accepted},
};

/// The action, the reason, the principal and the method of each denial, with the number of denials that the line sums
/// up.
fn denials(audit: &Path) -> Vec<(String, u64)> {
    let text = fs::read_to_string(audit).expect("the log is there");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("an object"));
    let denied = lines.filter(|line| line["outcome"] == "denied");
    let of = |line: Value| {
        let fields = ["action", "reason", "principal", "method"].map(|name| line[name].as_str().unwrap_or_default());
        (fields.join(" ").trim_end().to_owned(), line["count"].as_u64().unwrap_or(1))
    };
    denied.map(of).collect()
}

/// Sends these bytes to a port, and returns its answer.
fn answer(address: &str, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("accepted");
    // The port may end the connection before everything is sent.
    let _ = stream.write_all(bytes);
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said);
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn err_an_intruder_is_refused_on_both_ports_and_each_attempt_is_logged() {
    let (data, ca, other) = (data_dir(), Ca::new("kent"), Ca::new("other"));
    let [good, revoked, unnamed] = [("good", 2), ("revoked", 3), ("nobody", 4)]
        .map(|(name, serial)| ca.client(&format!("spiffe://example/{name}"), serial));
    let files = Files::new(&ca.server(), Some(&ca), Some(&ca.revoke(&[&revoked])));
    let (store, audit) = (data.path().join("store"), data.path().join("audit.jsonl"));
    let open = files.daemon(&store);
    let mut access = client(&open, &ca, Some(&good)).connect().await.expect("connected").access();
    let token = make(&mut access, &anonymous(), &["allocate:uuidv7"], 0).await.expect("made");
    open.kill();
    let mut command = files.command(&store);
    let daemon = Daemon::spawn(command.args(["--auth", "required", "--audit"]).arg(&audit));

    // A self-signed certificate with the name of a permitted caller.
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::default();
    params.subject_alt_names = vec![rcgen::SanType::URI("spiffe://example/good".try_into().expect("ASCII"))];
    let signed = params.self_signed(&key).expect("a certificate").pem();
    let own = crate::it::tls::Identity::new(signed, key.serialize_pem());
    let foreign = other.client("spiffe://example/good", 2);
    for (what, identity) in
        [("none", None), ("own", Some(&own)), ("another CA's", Some(&foreign)), ("revoked", Some(&revoked))]
    {
        assert!(!is_accepted(&daemon, &ca, identity).await, "{what}");
    }
    // A caller that sends plain text to a port with TLS learns only that the port requires TLS.
    for address in [daemon.grpc_address(), daemon.http_address()] {
        let said =
            String::from_utf8_lossy(&answer(address, b"GET /metrics HTTP/1.1\r\nHost: kent\r\n\r\n")).into_owned();
        assert!(said.starts_with("HTTP/1.1 400 ") && said.contains("This port speaks TLS: use https://"), "{said}");
        for bytes in [&b"\x01GET / HTTP/1.1\r\n\r\n"[..], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"] {
            let said = answer(address, bytes);
            assert!(matches!(said.first(), None | Some(0x15)), "{address}: {said:?}");
        }
    }
    // The right CA, but no role lists the name. The rights of a token do not carry over to the connection's next call.
    let named = client(&daemon, &ca, Some(&unnamed)).connect().await.expect("connected");
    assert_eq!(missing(named.allocator().allocate(packed("uuidv7")).await), "allocate:uuidv7");
    named.allocator().allocate(token.send(packed("uuidv7"))).await.expect("granted");
    assert_eq!(missing(named.allocator().allocate(packed("uuidv7")).await), "allocate:uuidv7");
    let bad = super::Holder { secret: "kent_x".to_owned(), id: String::new() };
    assert_eq!(refusal(named.allocator().allocate(bad.send(packed("uuidv7"))).await).1, "BAD_CREDENTIAL");
    daemon.signal("TERM");
    assert!(daemon.wait().await.success());

    let found = denials(&audit);
    let count = |kind: &str| found.iter().filter(|(it, _)| it == kind).map(|(_, count)| count).sum::<u64>();
    // The client retries failed handshakes.
    assert!(count("connect TLS_HANDSHAKE") >= 8, "{found:?}");
    let nobody = "certificate:spiffe://example/nobody kent.v1.Allocator/Allocate";
    assert_eq!(count(&format!("call PERMISSION_DENIED {nobody}")), 2, "{found:?}");
    assert_eq!(count("call BAD_CREDENTIAL  kent.v1.Allocator/Allocate"), 1, "{found:?}");

    // A TLS client gets no answer from a port without TLS, either.
    let plain = Daemon::start(&data.path().join("plain"));
    assert!(!is_accepted(&plain, &ca, Some(&good)).await);
    for address in [plain.grpc_address(), plain.http_address()] {
        // The beginning of a handshake.
        let said = answer(
            address,
            b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
        );
        let said = String::from_utf8_lossy(&said);
        assert!(!said.contains("200") && !said.contains("kent"), "{address}: {said}");
    }
}
