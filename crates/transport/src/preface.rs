//! The first bytes of a connection to the gRPC port. They show whether the caller speaks HTTP/2.

use std::io;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{
    connection::{Connection, preface_timeout},
    handshake::close,
};

/// The answer to a caller that speaks HTTP/1. An HTTP/2 server would send binary frames, which curl reports as
/// HTTP/0.9.
const SPEAK_HTTP2: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n\
    This port speaks gRPC, which needs HTTP/2. For curl, use the HTTP port (kentd --http; by default port 7601): \
    curl -X POST http://127.0.0.1:7601/v1/alloc/uuidv7\n";

/// Returns the connection for an HTTP/2 server; the server reads the first bytes again. If the first bytes begin a
/// request of HTTP/1, answers the caller in HTTP/1 and returns an error. The server ends a connection that uses any
/// other protocol.
pub(super) async fn expect_http2(mut connection: Connection) -> io::Result<Connection> {
    let (mut first, mut timeout) = ([0; 3], preface_timeout());
    tokio::select! {
        read = connection.read_exact(&mut first) => drop(read?),
        () = timeout.as_mut() => return Err(io::ErrorKind::TimedOut.into()),
    }
    // HTTP/2 begins with `PRI` (RFC 9113, section 3.4), and HTTP/1 with another method.
    if first == *b"PRI" || !first.iter().all(u8::is_ascii_uppercase) {
        return Ok(connection.beginning(Bytes::copy_from_slice(&first), timeout));
    }
    connection.write_all(SPEAK_HTTP2).await?;
    close(connection).await;
    Err(io::Error::other("the caller speaks HTTP/1"))
}
