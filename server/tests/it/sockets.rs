//! Unix sockets: who can connect, what happens to the socket files, and which clients can use them.

use std::{
    fs,
    io::Read,
    os::unix::{
        fs::{FileTypeExt, MetadataExt},
        net::UnixStream,
    },
    path::Path,
    process::{Command, Output, Stdio},
};

use kent_client::Client;
use kent_proto::v1::{Encoding, ListHistoryRequest, allocator_client::AllocatorClient};
use tonic::transport::{Channel, Endpoint};

use super::{
    harness::{Daemon, Ledger, SPACE, create, data_dir, identifiers, kentd, request},
    operator::kent_binary,
};

fn endpoint(path: &Path) -> String {
    format!("unix:{}", path.display())
}

fn allocator(path: &Path) -> AllocatorClient<Channel> {
    AllocatorClient::new(Endpoint::from_shared(endpoint(path)).expect("an address").connect_lazy())
}

/// The command line of a daemon that also listens on this socket.
fn with_socket(data: &Path, socket: &Path) -> Command {
    let mut command = kentd(data);
    command.arg("--listen").arg(format!("127.0.0.1:0,{}", endpoint(socket)));
    command
}

/// The error of a daemon that does not start.
fn refusal(command: &mut Command) -> String {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("kentd starts");
    let mut text = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut text).expect("read");
    assert_eq!(child.wait().expect("ended").code(), Some(1), "{text}");
    text
}

fn kent(arguments: &[&str]) -> Output {
    Command::new(kent_binary()).args(arguments).output().expect("kent runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test]
async fn ok_a_daemon_serves_a_private_socket_in_its_data_directory() {
    let dir = data_dir();
    let (data, mut ledger) = (dir.path().join("data"), Ledger::default());
    let socket = data.join("kent.sock");
    let daemon = Daemon::start(&data);
    let file = fs::symlink_metadata(&socket).expect("a socket");
    assert!(file.file_type().is_socket());
    assert_eq!(file.mode() & 0o7777, 0o600);
    for _ in 0..3 {
        let over_tcp = daemon.allocator().allocate(request("uuidv7", 100, Encoding::Packed)).await.expect("granted");
        let over_unix = allocator(&socket).allocate(request("uuidv7", 100, Encoding::Packed)).await.expect("granted");
        ledger.record("uuidv7", identifiers(over_tcp.get_ref()));
        ledger.record("uuidv7", identifiers(over_unix.get_ref()));
    }
    daemon.signal("TERM");
    assert!(daemon.wait().await.success());
    assert!(!socket.exists());
}

#[tokio::test]
async fn ok_the_socket_of_a_killed_daemon_is_replaced() {
    let dir = data_dir();
    let (data, socket) = (dir.path().join("data"), dir.path().join("own.sock"));
    for command in [kentd, |data: &Path| with_socket(data, &data.with_file_name("own.sock"))] {
        Daemon::spawn(&mut command(&data)).kill();
    }
    assert!(socket.exists() && data.join("kent.sock").exists());
    let default = Daemon::start(&data);
    assert!(allocator(&data.join("kent.sock")).allocate(request("uuidv7", 1, Encoding::Lease)).await.is_ok());
    drop(default);
    let named = Daemon::spawn(&mut with_socket(&data, &socket));
    assert!(allocator(&socket).allocate(request("uuidv7", 1, Encoding::Lease)).await.is_ok());
    named.signal("TERM");
    assert!(named.wait().await.success());
    assert!(!socket.exists());
}

#[tokio::test]
async fn err_a_path_that_is_in_use_or_not_a_socket_is_refused() {
    let dir = data_dir();
    let (socket, file) = (dir.path().join("s"), dir.path().join("file"));
    let daemon = Daemon::spawn(&mut with_socket(&dir.path().join("data"), &socket));
    fs::write(&file, "text").expect("written");
    let cases = [
        (socket.clone(), "another process, such as a kentd that is still running, serves this socket"),
        (file.clone(), "the file there is not a socket, so it is not replaced"),
        (dir.path().join("absent/s"), "its directory does not exist (mkdir -p "),
        (dir.path().join("a".repeat(120)), "the path of a Unix socket has at most 107"),
    ];
    for (path, expected) in cases {
        let said = refusal(&mut with_socket(&dir.path().join("other"), &path));
        assert!(said.contains(&format!("cannot listen on {}", endpoint(&path))) && said.contains(expected), "{said}");
    }
    assert!(allocator(&socket).allocate(request("uuidv7", 1, Encoding::Lease)).await.is_ok());
    assert_eq!(fs::read(&file).expect("kept"), b"text");
    drop(daemon);
}

#[tokio::test]
async fn ok_history_names_the_user_of_a_socket() {
    let dir = data_dir();
    let socket = dir.path().join("s");
    let daemon = Daemon::spawn(&mut with_socket(&dir.path().join("data"), &socket));
    let client = Client::builder().endpoint(endpoint(&socket)).build().expect("valid");
    let local = client.connect().await.expect("connected");
    local.regions().create_region(create("orders")).await.expect("created");
    let list = ListHistoryRequest { parent: SPACE.to_owned(), ..ListHistoryRequest::default() };
    let history = daemon.regions().list_history(list).await.expect("listed").into_inner();
    let own = fs::metadata(dir.path()).expect("a directory").uid();
    assert_eq!(history.entries[0].principal, format!("local user {own}"));
}

#[tokio::test]
async fn ok_the_command_line_and_clients_use_a_socket() {
    let dir = data_dir();
    let (socket, mut ledger) = (dir.path().join("s"), Ledger::default());
    let daemon = Daemon::spawn(&mut with_socket(&dir.path().join("data"), &socket));
    let status = kent(&["--endpoint", &endpoint(&socket), "status"]);
    assert!(status.status.success(), "{}", text(&status.stderr));
    let several = format!("{},{}", endpoint(&dir.path().join("absent")), daemon.grpc_address());
    let status = kent(&["--endpoint", &several, "status"]);
    assert!(status.status.success(), "{}", text(&status.stderr));
    let client = Client::builder()
        .endpoint(endpoint(&socket))
        .endpoint(daemon.grpc_address())
        .discover(true)
        .build()
        .expect("valid");
    let handle = client.uuid_v7();
    for _ in 0..10 {
        ledger.record("uuidv7", handle.take(100).await.expect("granted").into_iter().map(|id| id.as_u128()));
    }
}

#[tokio::test]
async fn err_the_command_line_says_what_is_wrong_with_a_socket() {
    let dir = data_dir();
    let (absent, file, stale) = (dir.path().join("absent"), dir.path().join("file"), dir.path().join("stale"));
    fs::write(&file, "text").expect("written");
    drop(std::os::unix::net::UnixListener::bind(&stale).expect("bound"));
    for (path, expected) in [
        (&absent, "There is no such socket"),
        (&file, "is a file, not a socket"),
        (&stale, "The daemon that served this socket is not running"),
    ] {
        let output = kent(&["--endpoint", &endpoint(path), "status"]);
        let said = text(&output.stderr);
        assert!(!output.status.success());
        assert!(said.contains(&format!("tried {}", endpoint(path))) && said.contains(expected), "{said}");
        assert!(UnixStream::connect(path).is_err());
    }
}
