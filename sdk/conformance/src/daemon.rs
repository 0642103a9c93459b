//! A simulated daemon: its port and its connections, and how it stops and restarts.

use std::{io, net::SocketAddr, sync::Arc};

use kent_proto::v1::allocator_server::AllocatorServer;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;

use crate::{
    certificates::Cas,
    ledger::Ledger,
    log::{Log, whole},
    script::DaemonSpec,
    service::{Played, Service},
    wire::{Stream, Wire},
};

/// A daemon of one case. Dropping this value stops the daemon.
pub(crate) struct Daemon {
    pub(crate) played: Arc<Played>,
    log: Arc<Log>,
    name: String,
    address: SocketAddr,
    acceptor: Option<TlsAcceptor>,
    /// The tasks that serve the port.
    tasks: JoinSet<()>,
}

/// The maximum number of connections that wait to be served.
const WAITING: usize = 64;

impl Daemon {
    /// Starts a daemon on a free port.
    pub(crate) async fn start(spec: &DaemonSpec, cas: &Cas, log: &Arc<Log>, ledger: &Arc<Ledger>) -> io::Result<Self> {
        let played = Played::new(&spec.name, spec.token.clone(), log.clone(), ledger.clone());
        played.answer(&spec.answers, &spec.then);
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let acceptor = spec.tls.as_ref().map(|tls| cas.acceptor(tls)).transpose()?;
        let (played, log, name) = (Arc::new(played), log.clone(), spec.name.clone());
        let mut daemon = Self { played, log, name, address, acceptor, tasks: JoinSet::new() };
        match spec.down {
            true => daemon.log.say(&daemon.name, "is down"),
            false => daemon.serve(listener),
        }
        Ok(daemon)
    }

    /// Returns the address for the client.
    pub(crate) fn endpoint(&self) -> String {
        match self.acceptor {
            Some(_) => format!("https://localhost:{}", self.address.port()),
            None => self.address.to_string(),
        }
    }

    /// Stops listening and breaks all connections.
    pub(crate) async fn die(&mut self) {
        self.played.die();
        self.tasks.shutdown().await;
    }

    /// Listens again on the old port.
    pub(crate) async fn come_back(&mut self) -> io::Result<()> {
        self.tasks.shutdown().await;
        let listener = TcpListener::bind(self.address).await?;
        self.log.say(&self.name, "is back");
        *whole(&self.played.alive) = CancellationToken::new();
        self.serve(listener);
        Ok(())
    }

    fn serve(&mut self, listener: TcpListener) {
        let alive = whole(&self.played.alive).clone();
        let (pass, connections) = mpsc::channel::<io::Result<Wire>>(WAITING);
        let service = AllocatorServer::new(Service(self.played.clone()));
        let incoming = ReceiverStream::new(connections);
        let until = alive.clone();
        self.tasks.spawn(async move {
            let serving = Server::builder().add_service(service).serve_with_incoming(incoming);
            // OK because the client sees the broken connection, and the kit checks the client's reaction.
            let _ = until.run_until_cancelled(serving).await;
        });
        let (acceptor, log, name) = (self.acceptor.clone(), self.log.clone(), self.name.clone());
        self.tasks.spawn(async move {
            let accepting = async {
                let mut handshakes = JoinSet::new();
                while let Ok((stream, _)) = listener.accept().await {
                    let (acceptor, log, name, pass) = (acceptor.clone(), log.clone(), name.clone(), pass.clone());
                    let alive = alive.clone();
                    handshakes.spawn(async move {
                        match accept(stream, acceptor).await {
                            // OK because only a stopped daemon has no receiver.
                            Ok(stream) => drop(pass.send(Ok(Wire::new(stream, &alive))).await),
                            Err(error) => log.say(&name, &format!("the TLS handshake failed: {error}")),
                        }
                    });
                }
            };
            alive.run_until_cancelled(accepting).await;
        });
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        whole(&self.played.alive).cancel();
    }
}

async fn accept(stream: TcpStream, acceptor: Option<TlsAcceptor>) -> io::Result<Stream> {
    stream.set_nodelay(true)?;
    match acceptor {
        Some(acceptor) => Ok(Stream::Tls(Box::new(acceptor.accept(stream).await?))),
        None => Ok(Stream::Plain(stream)),
    }
}
