//! `kent-bench http`: 100 uuidv7 as text over HTTP, through the short path and as Connect JSON, compared with a bare
//! axum handler that answers with the same bytes.

use std::{fs, time::Instant};

use anyhow::{Context, ensure};
use clap::Args;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
};

use crate::{
    contest::{Bound, Contender, Contest, Options, Slice, Unit},
    figures::now,
    load::{gather, settle},
    process::Served,
};

/// Compare grants of 100 uuidv7 as text over HTTP with a bare axum handler that answers with the same bytes: requests per second and
/// latencies.
///
/// Each connection has one request in flight, as with most HTTP clients. The column `ratio` is the rate relative to the
/// bare handler, and `cpu us` is the processor time of the server per request in microseconds.
#[derive(Debug, Args)]
pub(crate) struct HttpArgs {
    #[command(flatten)]
    options: Options,
}

/// A request, and the minimum ratio of the daemon's rate to the bare handler's.
struct Call {
    name: &'static str,
    path: &'static str,
    message: &'static str,
    least: f64,
}

const CALLS: [Call; 2] = [
    Call { name: "text", path: "/v1/alloc/uuidv7?n=100", message: "", least: 0.6 },
    Call {
        name: "json",
        path: "/kent.v1.Allocator/Allocate",
        message: r#"{"source":"uuidv7","count":100,"encoding":"ENCODING_TEXT"}"#,
        least: 0.6,
    },
];

/// The numbers of connections.
const CONNECTIONS: [usize; 2] = [1, 16];

/// The bytes that end the head of a request or an answer.
const END: &[u8] = b"\r\n\r\n";

pub(crate) fn run(args: &HttpArgs) -> anyhow::Result<()> {
    let (options, data) = (&args.options, tempfile::tempdir()?);
    let (contest, runtime) = (Contest::new("http", Unit::Each("requests"), options)?, options.runtime()?);
    let daemon = Served::kentd(options.kentd.as_ref(), data.path())?;
    let api = daemon.http.as_deref().context("the daemon has no HTTP port")?;
    for Call { name, path, message, least } in CALLS {
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: {api}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{message}",
            message.len()
        );
        let file = data.path().join(name);
        fs::write(&file, runtime.block_on(once(api, &request))?)?;
        let file = file.display().to_string();
        let kind = if message.is_empty() { "text/plain; charset=utf-8" } else { "application/json" };
        let bare = Served::bare_with(&["--http", &file, "--content-type", kind])?;
        for connections in CONNECTIONS {
            let slice = |server: &Served, address: &str| {
                let load = load(address, &request, connections, options);
                server.process.watched(|| runtime.block_on(load))
            };
            let contenders = vec![
                Contender::new("bare", || slice(&bare, &bare.address)),
                Contender::new("kentd", || slice(&daemon, api)),
            ];
            let noun = if connections == 1 { "connection" } else { "connections" };
            let load = format!("{name}, {connections} {noun}");
            let ratio = contest.run(&load, contenders)?.ratio("kentd", "bare");
            contest.fact(format!("{load}, kentd / bare"), ratio, Bound::AtLeast(least));
        }
    }
    contest.finish();
    drop(runtime);
    daemon.stop()
}

/// Sends a request on a new connection, and returns the body of the answer.
async fn once(address: &str, request: &str) -> anyhow::Result<Vec<u8>> {
    let mut connection = Connection::open(address).await?;
    connection.call(request).await?;
    Ok(connection.body)
}

/// Sends a request repeatedly on each of several connections.
async fn load(address: &str, request: &str, connections: usize, options: &Options) -> anyhow::Result<Slice> {
    let mut open = Vec::new();
    for _ in 0..connections {
        open.push(Connection::open(address).await?);
    }
    let (began, mut tasks) = (now(), JoinSet::new());
    for connection in open {
        tasks.spawn(repeat(connection, request.to_owned(), began + options.length()));
    }
    let slice = gather(tasks, began).await;
    settle(connections).await;
    slice
}

async fn repeat(mut connection: Connection, request: String, end: Instant) -> anyhow::Result<Slice> {
    let (mut slice, mut sent) = (Slice::default(), now());
    while sent < end {
        connection.call(&request).await?;
        let answered = now();
        slice.call(answered - sent);
        slice.count += 1;
        sent = answered;
    }
    Ok(slice)
}

/// An HTTP/1.1 connection that parses as little of an answer as possible, so that the load generator is not the
/// bottleneck.
struct Connection {
    socket: TcpStream,
    read: Vec<u8>,
    body: Vec<u8>,
}

impl Connection {
    async fn open(address: &str) -> anyhow::Result<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        Ok(Self { socket, read: Vec::with_capacity(1 << 16), body: Vec::new() })
    }

    /// Sends a request, and reads the body of the answer. The status must be 200.
    async fn call(&mut self, request: &str) -> anyhow::Result<()> {
        self.socket.write_all(request.as_bytes()).await?;
        self.read.clear();
        let (head, length) = loop {
            self.more().await?;
            if let Some(at) = self.read.windows(END.len()).position(|window| window == END) {
                break (at + END.len(), length(&self.read[..at])?);
            }
        };
        while self.read.len() < head + length {
            self.more().await?;
        }
        self.body.clear();
        self.body.extend_from_slice(&self.read[head..head + length]);
        Ok(())
    }

    async fn more(&mut self) -> anyhow::Result<()> {
        ensure!(self.socket.read_buf(&mut self.read).await? > 0, "the server closed the connection");
        Ok(())
    }
}

/// Returns the length of the body that follows a head. The status must be 200.
fn length(head: &[u8]) -> anyhow::Result<usize> {
    let head = str::from_utf8(head)?;
    ensure!(head.starts_with("HTTP/1.1 200 "), "refused: {head}");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    length.context("the answer has no content-length")?.parse().context("a length")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_the_length_of_an_answer_is_read() {
        let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 3700\r\n";
        assert_eq!(length(head).expect("a length"), 3700);
        for bad in ["HTTP/1.1 404 Not Found\r\ncontent-length: 1", "HTTP/1.1 200 OK\r\n"] {
            assert!(length(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
