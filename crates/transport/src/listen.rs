//! The addresses on which the gRPC port accepts connections: TCP addresses and Unix sockets.

use std::{
    fs, future, io,
    net::SocketAddr,
    os::unix::{
        fs::{FileTypeExt, MetadataExt, PermissionsExt},
        net::UnixStream as StdUnixStream,
    },
    path::{Path, PathBuf},
    task::{Context, Poll},
    time::Duration,
};

use kent_engine::host::address::{Address, Process};
use rustix::net::sockopt::{
    set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl, set_tcp_user_timeout,
};
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tracing::warn;

/// The listeners of the gRPC port.
#[derive(Debug)]
pub struct Listeners {
    all: Vec<Listener>,
    /// The listener that is polled first. The listeners take turns, so that a flood on one address does not starve the
    /// other listeners.
    first: usize,
}

#[derive(Debug)]
enum Listener {
    Tcp(TcpListener),
    Unix(UnixSocket),
}

/// A connection that was accepted.
#[derive(Debug)]
pub enum Socket {
    /// A TCP connection.
    Tcp(TcpStream),
    /// A connection over a Unix domain socket.
    Unix(UnixStream),
}

/// A Unix socket with a file that only the daemon's user can connect to. The file is removed when this value is
/// dropped.
#[derive(Debug)]
pub struct UnixSocket {
    listener: UnixListener,
    /// The absolute path, so that the file can be removed from any working directory.
    path: PathBuf,
    /// The device and the inode number of the file. Another file at the path is left alone.
    file: Option<(u64, u64)>,
}

/// Why no Unix socket can be created at a path.
#[derive(Debug, Error)]
pub enum SocketError {
    /// Another process accepts connections there.
    #[error("another process, such as a kentd that is still running, serves this socket")]
    InUse,
    /// The file there is not a socket.
    #[error("the file there is not a socket, so it is not replaced")]
    NotASocket,
    /// The path is too long for a socket address.
    #[error("the path has {bytes} bytes, but the path of a Unix socket has at most {PATH_BYTES_MAX}")]
    TooLong {
        /// The length of the absolute path.
        bytes: usize,
    },
    /// The directory for the socket does not exist.
    #[error("its directory does not exist (mkdir -p {})", .0.display())]
    NoDirectory(PathBuf),
    /// The socket cannot be created.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// TCP keepalive: probe after 30 s idle, then every 5 s; drop after 4 missed probes.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_PROBES: u32 = 4;
/// TCP user timeout, in milliseconds: drop a connection whose sent data stays unacknowledged for this time.
const USER_TIMEOUT_MILLIS: u32 = 50_000;

/// The longest path of a Unix socket, in bytes, without the terminating zero byte.
const PATH_BYTES_MAX: usize = 107;

/// The mode of the file of a socket: only its owner can connect.
const OWNER_ONLY: u32 = 0o600;

impl From<TcpListener> for Listeners {
    fn from(listener: TcpListener) -> Self {
        Self { all: vec![Listener::Tcp(listener)], first: 0 }
    }
}

impl From<TcpStream> for Socket {
    fn from(stream: TcpStream) -> Self {
        Self::Tcp(stream)
    }
}

impl Socket {
    /// Sets the options of a connection.
    pub fn set_up(&self) -> io::Result<()> {
        let Self::Tcp(connection) = self else { return Ok(()) };
        // Without TCP_NODELAY, a small reply waits for the delayed acknowledgment of the previous reply: 40 ms.
        connection.set_nodelay(true)?;
        // TCP keepalive removes connections to dead machines. HTTP/2 pings would do the same, but they read the clock
        // with every frame.
        set_socket_keepalive(connection, true)?;
        set_tcp_keepidle(connection, KEEPALIVE_IDLE)?;
        set_tcp_keepintvl(connection, KEEPALIVE_INTERVAL)?;
        set_tcp_keepcnt(connection, KEEPALIVE_PROBES)?;
        Ok(set_tcp_user_timeout(connection, USER_TIMEOUT_MILLIS)?)
    }
}

impl Listeners {
    /// Creates an empty set of listeners.
    pub fn none() -> Self {
        Self { all: Vec::new(), first: 0 }
    }

    /// Adds a TCP address.
    pub fn add_tcp(&mut self, listener: TcpListener) {
        self.all.push(Listener::Tcp(listener));
    }

    /// Adds a Unix socket.
    pub fn add_unix(&mut self, socket: UnixSocket) {
        self.all.push(Listener::Unix(socket));
    }

    /// The addresses for people and clients, with the actual ports.
    pub fn addresses(&self) -> impl Iterator<Item = String> + '_ {
        self.all.iter().filter_map(|listener| match listener {
            Listener::Tcp(listener) => Some(listener.local_addr().ok()?.to_string()),
            Listener::Unix(socket) => Some(format!("unix:{}", socket.path.display())),
        })
    }

    /// The first TCP address.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.all.iter().find_map(|listener| match listener {
            Listener::Tcp(listener) => listener.local_addr().ok(),
            Listener::Unix(_) => None,
        })
    }

    /// Accepts a connection.
    ///
    /// # Errors
    ///
    /// The error of the first listener that fails.
    pub(crate) async fn accept(&mut self) -> io::Result<(Socket, Address)> {
        future::poll_fn(|cx| {
            for turn in 0..self.all.len() {
                let at = (self.first + turn) % self.all.len();
                if let Poll::Ready(accepted) = self.all[at].poll_accept(cx) {
                    self.first = at + 1;
                    return Poll::Ready(accepted);
                }
            }
            Poll::Pending
        })
        .await
    }
}

impl Listener {
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(Socket, Address)>> {
        match self {
            Self::Tcp(listener) => {
                listener.poll_accept(cx).map_ok(|(stream, address)| (Socket::Tcp(stream), Address::Tcp(address)))
            }
            Self::Unix(socket) => socket.listener.poll_accept(cx).map(|accepted| {
                let (stream, _) = accepted?;
                let peer = stream.peer_cred()?;
                let process = Process { pid: peer.pid(), uid: peer.uid(), gid: peer.gid() };
                Ok((Socket::Unix(stream), Address::Unix(process)))
            }),
        }
    }
}

impl UnixSocket {
    /// Listens at a path, and replaces the file that a killed daemon has left there.
    ///
    /// # Errors
    ///
    /// [`SocketError`].
    pub fn bind(path: &Path) -> Result<Self, SocketError> {
        let path = std::path::absolute(path)?;
        let bytes = path.as_os_str().len();
        check_free(&path)?;
        // The socket is created in a directory that only this user can enter, because the umask determines the mode of
        // a new socket. A rename then replaces the old file atomically.
        let parent = path.parent().unwrap_or(Path::new("/"));
        if !parent.exists() {
            return Err(SocketError::NoDirectory(parent.to_owned()));
        }
        let private = tempfile::Builder::new().prefix(".").rand_bytes(5).tempdir_in(parent)?;
        let made = private.path().join("s");
        if bytes.max(made.as_os_str().len()) > PATH_BYTES_MAX {
            return Err(SocketError::TooLong { bytes });
        }
        let listener = UnixListener::bind(&made)?;
        fs::set_permissions(&made, fs::Permissions::from_mode(OWNER_ONLY))?;
        let file = identify(&made);
        fs::rename(&made, &path)?;
        Ok(Self { listener, path, file })
    }
}

/// Checks that a path is free, or contains the socket of a process that has ended.
fn check_free(path: &Path) -> Result<(), SocketError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
        Ok(found) if !found.file_type().is_socket() => return Err(SocketError::NotASocket),
        Ok(_) => {}
    }
    match StdUnixStream::connect(path) {
        Ok(_) => Err(SocketError::InUse),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        // The backlog is full, so a process is listening.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(SocketError::InUse),
        Err(error) => Err(error.into()),
    }
}

/// The device and the inode number of a file.
fn identify(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        if self.file.is_some()
            && identify(&self.path) == self.file
            && let Err(error) = fs::remove_file(&self.path)
        {
            warn!(path = %self.path.display(), %error, "cannot remove the socket");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).expect("a file").mode() & 0o7777
    }

    #[tokio::test]
    async fn ok_a_socket_is_private_and_removed_at_the_end() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("kent.sock");
        let socket = UnixSocket::bind(&path).expect("bound");
        assert_eq!(mode(&path), OWNER_ONLY);
        assert_eq!(fs::read_dir(dir.path()).expect("read").count(), 1);
        assert!(matches!(UnixSocket::bind(&path), Err(SocketError::InUse)));
        drop(socket);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn ok_a_stale_socket_is_replaced_and_the_file_of_another_is_left() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("kent.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).expect("bound"));
        assert!(path.exists());
        let first = UnixSocket::bind(&path).expect("replaced");
        fs::remove_file(&path).expect("removed");
        let second = UnixSocket::bind(&path).expect("bound");
        drop(first);
        assert!(path.exists());
        drop(second);
    }

    #[tokio::test]
    async fn err_other_files_and_long_paths() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("file");
        fs::write(&file, "text").expect("written");
        assert!(matches!(UnixSocket::bind(&file), Err(SocketError::NotASocket)));
        assert_eq!(fs::read(&file).expect("kept"), b"text");
        let long = dir.path().join("a".repeat(120));
        assert!(matches!(UnixSocket::bind(&long), Err(SocketError::TooLong { .. })));
        assert!(matches!(UnixSocket::bind(&dir.path().join("absent/s")), Err(SocketError::NoDirectory(_))));
    }

    #[tokio::test]
    async fn ok_listeners_take_turns_and_name_the_process() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("s");
        let mut listeners = Listeners::from(TcpListener::bind("127.0.0.1:0").await.expect("bound"));
        listeners.add_unix(UnixSocket::bind(&path).expect("bound"));
        let tcp = listeners.tcp_address().expect("an address");
        let _callers = (
            TcpStream::connect(tcp).await.expect("connected"),
            TcpStream::connect(tcp).await.expect("connected"),
            UnixStream::connect(&path).await.expect("connected"),
        );
        let mut kinds = Vec::new();
        for _ in 0..3 {
            let (_, address) = listeners.accept().await.expect("accepted");
            if let Address::Unix(process) = address {
                assert_eq!(process.uid, rustix::process::geteuid().as_raw());
                assert_eq!(process.pid, i32::try_from(std::process::id()).ok());
            }
            kinds.push(matches!(address, Address::Unix(_)));
        }
        assert_eq!(kinds, [false, true, false]);
    }
}
