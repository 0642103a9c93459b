//! Runs the commands of a connection.

use std::sync::Arc;

use bytes::Bytes;
use kent_engine::{auth::Asked, grant::integers, status};
use kent_ids::Source;
use kent_proto::{
    model::{Invalid, region_name},
    v1::{AllocateRequest, GetRegionRequest, allocator_server::Allocator, regions_client::RegionsClient},
};
use kent_transport::{issued::Issued, peer::Peer};
use tonic::{
    Request, Status,
    codegen::http::{HeaderValue, header::AUTHORIZATION},
};

use crate::{
    command::{Command, Secret},
    failure, issued,
    reply::{Reply, Version},
    services::Services,
};

/// The state of a connection.
pub(crate) struct Session {
    services: Arc<Services>,
    peer: Peer,
    /// The number of the connection.
    id: i64,
    version: Version,
    /// The credential of `AUTH`, as the header of a gRPC call.
    header: Option<HeaderValue>,
    name: Bytes,
    is_ending: bool,
}

impl Session {
    pub(crate) fn new(services: Arc<Services>, peer: Peer) -> Self {
        let id = services.number();
        let (version, header, name) = <(Version, Option<HeaderValue>, Bytes)>::default();
        Self { services, peer, id, version, header, name, is_ending: false }
    }

    /// The version in which replies are written.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// Whether the caller has asked to end the connection.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// Whether the caller has shown a credential or needs none.
    pub(crate) fn has_credential(&self) -> bool {
        self.header.is_some() || self.peer.certificate.is_some() || !self.services.engine.auth().is_required()
    }

    /// Runs a command.
    pub(crate) async fn run(&mut self, command: Command) -> Reply {
        match self.try_run(command).await {
            Ok(reply) => reply,
            Err(status) => failure::reply(&status),
        }
    }

    async fn try_run(&mut self, command: Command) -> Result<Reply, Status> {
        let method = command.method();
        match command {
            Command::Increment { key, count } => return self.increment(&key, count.get()).await,
            Command::Get { key } => return self.get(&key).await,
            Command::Auth(token) => {
                let shown = self.show(method, token);
                return Ok(shown.map_or_else(|status| failure::reply_to_auth(&status), |()| Reply::OK));
            }
            Command::Hello { version, token, name } => return self.greet(method, version, (token, name)),
            Command::Quit => {
                self.is_ending = true;
                return Ok(Reply::OK);
            }
            Command::Reset => {
                (self.version, self.header, self.name) = Default::default();
                return Ok(Reply::Simple("RESET"));
            }
            _ => self.check(method, self.header.as_ref())?,
        }
        Ok(match command {
            Command::Time => self.time(),
            Command::Ping(None) => Reply::Simple("PONG"),
            Command::Ping(Some(text)) | Command::Echo(text) => Reply::Bulk(text),
            Command::ClientId => Reply::Integer(self.id),
            Command::ClientName => Reply::Bulk(self.name.clone()),
            Command::SetClientName(name) => {
                self.name = name;
                Reply::OK
            }
            Command::Describe => Reply::Array(Vec::new()),
            Command::GetConfig(names) => Reply::Map(names.iter().filter_map(|name| parameter(name)).collect()),
            _ => Reply::OK,
        })
    }

    /// Allocates `count` identifiers, and replies with the last one.
    async fn increment(&self, key: &str, count: u64) -> Result<Reply, Status> {
        check_key(key)?;
        let message = AllocateRequest { source: format!("region:{key}"), count, ..AllocateRequest::default() };
        let answer = self.services.integers.allocate(self.request(message)).await?;
        let issued = answer.extensions().get::<Issued>().filter(|issued| issued.block.count() == count);
        let issued = issued.ok_or_else(status::broken_answer)?;
        // The table may have changed since the check before the grant. Identifiers that do not fit become a gap.
        integers::last(&issued.block).map(Reply::Integer).map_err(|invalid| status::from_invalid(&invalid))
    }

    /// Replies with the last identifier of a region.
    async fn get(&self, key: &str) -> Result<Reply, Status> {
        check_key(key)?;
        let bad_key = |problem: String| status::from_invalid(&Invalid::new("key", problem));
        let name = match format!("region:{key}").parse() {
            Ok(Source::Region { name, space }) => region_name(&space, &name),
            Ok(_) => return Err(status::broken_answer()),
            Err(error) => return Err(bad_key(error.to_string())),
        };
        let mut regions = RegionsClient::new(self.services.port.clone());
        let region =
            regions.get_region(self.request(GetRegionRequest { name, exact_counter: true })).await?.into_inner();
        let last = issued::last(&region).map_err(|invalid| status::from_invalid(&invalid))?;
        Ok(last.map_or(Reply::Nil, |last| Reply::text(last.to_string())))
    }

    /// Replies with the seconds and microseconds of the clock from which identifiers get their time.
    fn time(&self) -> Reply {
        let nanos = self.services.engine.clock().wall().get();
        let (seconds, micros) = (nanos.div_euclid(1_000_000_000), nanos.rem_euclid(1_000_000_000) / 1000);
        Reply::Array(vec![Reply::text(seconds.to_string()), Reply::text(micros.to_string())])
    }

    /// Describes the server, and switches to another version of the protocol.
    fn greet(
        &mut self,
        method: &'static str,
        version: Option<Version>,
        (token, name): (Option<Secret>, Option<Bytes>),
    ) -> Result<Reply, Status> {
        match token {
            Some(token) => {
                if let Err(status) = self.show(method, token) {
                    return Ok(failure::reply_to_auth(&status));
                }
            }
            None => self.check(method, self.header.as_ref())?,
        }
        self.version = version.unwrap_or(self.version);
        self.name = name.unwrap_or_else(|| self.name.clone());
        Ok(Reply::Map(vec![
            ("server", Reply::text("kent")),
            ("version", Reply::text(env!("CARGO_PKG_VERSION"))),
            ("proto", Reply::Integer(if self.version == Version::Two { 2 } else { 3 })),
            ("id", Reply::Integer(self.id)),
            ("mode", Reply::text("standalone")),
            ("role", Reply::text("master")),
            ("modules", Reply::Array(Vec::new())),
        ]))
    }

    /// Uses a token for the following commands, if it is valid.
    fn show(&mut self, method: &'static str, Secret(token): Secret) -> Result<(), Status> {
        // A token that cannot be a header is not valid either.
        let header = HeaderValue::from_bytes(&[b"Bearer ", &*token].concat());
        let mut header = header.unwrap_or_else(|_| HeaderValue::from_static("Bearer -"));
        header.set_sensitive(true);
        self.check(method, Some(&header))?;
        self.header = Some(header);
        Ok(())
    }

    /// Fails if the caller is not known, or has reached its limit of calls.
    fn check(&self, method: &'static str, header: Option<&HeaderValue>) -> Result<(), Status> {
        let engine = &self.services.engine;
        if !engine.auth().is_required() {
            return Ok(());
        }
        let (shown, now) = (self.peer.credentials(header.map(HeaderValue::as_bytes)), engine.clock().steady());
        let asked = || Arc::new(Asked { method, ..Asked::default() });
        let checked = engine.auth().identify(&shown, now).and_then(|caller| caller.charge_call(now));
        checked.map_err(|denied| status::from_denied(&denied.of_call(asked())))
    }

    /// A call of a service by this caller.
    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(header) = &self.header {
            request.metadata_mut().as_mut().insert(AUTHORIZATION, header.clone());
        }
        request.extensions_mut().insert(self.peer.clone());
        request
    }
}

/// Rejects a key that is written as a source.
fn check_key(key: &str) -> Result<(), Status> {
    match key.strip_prefix("region:") {
        None => Ok(()),
        Some(name) => {
            Err(status::from_invalid(&Invalid::new("key", format!("leave out region:, so that the key is {name}"))))
        }
    }
}

/// The parameters for which `redis-benchmark` asks. Every counter is durable before its identifiers are issued.
fn parameter(name: &[u8]) -> Option<(&'static str, Reply)> {
    match name {
        b"save" => Some(("save", Reply::text(""))),
        b"appendonly" => Some(("appendonly", Reply::text("yes"))),
        _ => None,
    }
}
