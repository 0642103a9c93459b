//! Reads the commands of a connection, and writes the replies in the same order.

use std::{future, io, pin::Pin, time::Duration};

use bytes::BytesMut;
use kent_transport::{connection::Connection, handshake};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    select, task,
    time::{self, Sleep},
};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::{
    command::{BadCommand, Command},
    reply::Reply,
    request::{self, Request},
    session::Session,
};

/// The minimum free capacity of the input buffer before a read, in bytes.
const READ_BYTES: usize = 4096;

/// The number of bytes of replies after which they are written, before the next command is run. A caller that does not
/// read its replies is therefore no longer served.
const WRITE_BYTES: usize = 16 * 1024;

/// The number of commands after which other connections of the thread get their turn.
const TURN_COMMANDS: u32 = 16;

/// The longest time that a command may take to arrive, that a reply may take to be sent, and that a caller without a
/// credential may be silent.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The longest time that a caller may be silent. Clients keep connections open, and connect again if one was closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(3600);

/// Serves a connection until the caller ends it or `stop` is canceled. The command in progress is still answered.
pub(crate) async fn serve(connection: Connection, session: Session, stop: CancellationToken) {
    let (input, output) = (BytesMut::new(), BytesMut::new());
    let mut exchange = Exchange { connection, session, input, output, run: 0 };
    match exchange.run(&stop).await {
        Ok(()) => handshake::close(exchange.connection).await,
        Err(error) => debug!(%error, "a connection of the Redis port failed"),
    }
}

struct Exchange {
    connection: Connection,
    session: Session,
    input: BytesMut,
    output: BytesMut,
    /// The number of commands that were run.
    run: u32,
}

impl Exchange {
    async fn run(&mut self, stop: &CancellationToken) -> io::Result<()> {
        // The wait for the rest of a command.
        let mut rest: Option<Pin<Box<Sleep>>> = None;
        loop {
            match request::next(&mut self.input) {
                Ok(Some(request)) => {
                    rest = None;
                    let is_last = self.answer(&request).await || stop.is_cancelled();
                    if is_last || self.output.len() >= WRITE_BYTES {
                        self.write().await?;
                    }
                    if is_last {
                        return Ok(());
                    }
                }
                Ok(None) => {
                    self.write().await?;
                    if !self.input.is_empty() && rest.is_none() {
                        rest = Some(Box::pin(time::sleep(TIMEOUT)));
                    }
                    if !self.read(&mut rest, stop).await? {
                        return Ok(());
                    }
                }
                Err(malformed) => {
                    self.reply(&Reply::Error(format!("ERR Protocol error: {malformed}")));
                    return self.write().await;
                }
            }
        }
    }

    /// Runs a command. Returns true if the connection must end.
    async fn answer(&mut self, request: &Request) -> bool {
        self.run = self.run.wrapping_add(1);
        if self.run.is_multiple_of(TURN_COMMANDS) {
            task::yield_now().await;
        }
        if request.parts.is_empty() {
            return false;
        }
        let (reply, is_strange) = match Command::read(&request.parts) {
            Ok(command) => (self.session.run(command).await, false),
            // A web page can make a browser send an HTTP request to this port, with commands in the body.
            Err(bad @ BadCommand::Unknown(_)) => (Reply::Error(bad.to_string()), request.is_line),
            Err(bad) => (Reply::Error(bad.to_string()), false),
        };
        self.reply(&reply);
        is_strange || self.session.is_ending()
    }

    fn reply(&mut self, reply: &Reply) {
        reply.write(self.session.version(), &mut self.output);
    }

    /// Reads more bytes. Returns false if the connection must end.
    async fn read(&mut self, rest: &mut Option<Pin<Box<Sleep>>>, stop: &CancellationToken) -> io::Result<bool> {
        let idle = if self.session.has_credential() { IDLE_TIMEOUT } else { TIMEOUT };
        let too_slow = async {
            match rest {
                Some(rest) => rest.await,
                None => future::pending().await,
            }
        };
        self.input.reserve(READ_BYTES);
        select! {
            () = stop.cancelled() => Ok(false),
            () = too_slow => Err(io::ErrorKind::TimedOut.into()),
            read = time::timeout(idle, self.connection.read_buf(&mut self.input)) => Ok(read?? > 0),
        }
    }

    /// Writes the replies.
    async fn write(&mut self) -> io::Result<()> {
        if self.output.is_empty() {
            return Ok(());
        }
        time::timeout(TIMEOUT, async {
            self.connection.write_all(&self.output).await?;
            self.connection.flush().await
        })
        .await??;
        self.output.clear();
        Ok(())
    }
}
