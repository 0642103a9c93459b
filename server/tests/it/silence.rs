//! Clients that are not heard of any more.

use std::{
    fs,
    net::{SocketAddrV4, TcpStream},
    thread,
    time::Duration,
};

use super::harness::{Daemon, data_dir};

/// The kernel asks whether a silent client is still there: one whose machine is gone would hold its connection, and what it may
/// have of the daemon, for ever.
#[test]
fn ok_a_silent_client_is_asked_whether_it_is_there() {
    const ESTABLISHED: &str = "01";
    const KEEPALIVE: &str = "02:";
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let address: SocketAddrV4 = daemon.grpc_address().parse().expect("an address");
    let _silent = TcpStream::connect(address).expect("connected");
    let local = format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port());
    let is_asked = || {
        let sockets = fs::read_to_string("/proc/net/tcp").expect("it is Linux");
        let mut sockets = sockets.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        // Its address, the other one, its state, queues, and which timer runs.
        sockets.any(|socket| socket[1] == local && socket[3] == ESTABLISHED && socket[5].starts_with(KEEPALIVE))
    };
    // The connection may not have been accepted yet.
    let asked = (0..3000).any(|_| {
        thread::sleep(Duration::from_millis(10));
        is_asked()
    });
    assert!(asked, "nobody asks");
}
