//! TCP keepalive for silent clients.

use std::{
    fs,
    net::{SocketAddrV4, TcpStream},
    thread,
    time::Duration,
};

use super::harness::{Daemon, data_dir};

/// The kernel must probe silent clients. Otherwise, the connection of a client whose machine has crashed would stay
/// open forever.
#[test]
fn ok_the_kernel_probes_silent_clients() {
    const ESTABLISHED: &str = "01";
    const KEEPALIVE: &str = "02:";
    let data = data_dir();
    let daemon = Daemon::start(data.path());
    let address: SocketAddrV4 = daemon.grpc_address().parse().expect("an address");
    let _silent = TcpStream::connect(address).expect("connected");
    let local = format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port());
    let is_probed = || {
        let sockets = fs::read_to_string("/proc/net/tcp").expect("the test runs on Linux");
        let mut sockets = sockets.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        // The columns: number, local address, remote address, state, queues, timer.
        sockets.any(|socket| socket[1] == local && socket[3] == ESTABLISHED && socket[5].starts_with(KEEPALIVE))
    };
    // The connection may not have been accepted yet.
    let probed = (0..3000).any(|_| {
        thread::sleep(Duration::from_millis(10));
        is_probed()
    });
    assert!(probed, "no keepalive timer is active");
}
