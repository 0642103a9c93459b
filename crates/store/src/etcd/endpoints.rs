//! Calls to the members of an etcd cluster: which one, with which token, and what a failure means.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time;
use tonic::codegen::InterceptedService;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, ConnectError, Request, Status};

use super::address::EtcdAddress;
use super::pb::etcdserverpb::{AuthenticateRequest, auth_client::AuthClient};

/// How etcd is recognised, and how we are.
#[derive(Clone)]
pub struct EtcdTls {
    /// Certificates of those who vouch for etcd, as PEM.
    pub ca: Vec<u8>,
    /// Our certificate and its key, as PEM, if etcd wants to see one.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl fmt::Debug for EtcdTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdTls").field("has_identity", &self.identity.is_some()).finish_non_exhaustive()
    }
}

/// A user of etcd.
#[derive(Clone)]
pub struct EtcdCredentials {
    /// Their name.
    pub user: String,
    /// Their password.
    pub password: String,
}

impl fmt::Debug for EtcdCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdCredentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// The members of the cluster.
#[derive(Debug)]
pub(crate) struct Endpoints {
    channels: Vec<Channel>,
    /// The one in use.
    current: AtomicUsize,
    /// How often another one came into use.
    switches: AtomicU64,
    credentials: Option<EtcdCredentials>,
    token: Mutex<Option<MetadataValue<Ascii>>>,
}

/// What became of a call that was not answered as wished.
#[derive(Debug)]
pub(crate) enum Failure {
    /// No connection could be made: it had no effect.
    NotSent(Status),
    /// etcd refused it: it had no effect.
    Refused(Status),
    /// It may have had an effect.
    Unanswered(Status),
}

impl Failure {
    fn status(self) -> Status {
        match self {
            Self::NotSent(status) | Self::Refused(status) | Self::Unanswered(status) => status,
        }
    }
}

/// A member, and the token to show it.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    channel: Channel,
    token: Option<MetadataValue<Ascii>>,
}

/// A channel whose calls carry the token.
pub(crate) type Authorised = InterceptedService<Channel, Token>;

/// Adds the token, and asks only a member that sees a leader: one that was cut off would let us wait.
#[derive(Clone, Debug)]
pub(crate) struct Token(Option<MetadataValue<Ascii>>);

impl Interceptor for Token {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("token", token.clone());
        }
        Ok(request)
    }
}

impl Caller {
    pub(crate) fn service(&self) -> Authorised {
        InterceptedService::new(self.channel.clone(), Token(self.token.clone()))
    }
}

const CONNECT: Duration = Duration::from_secs(1);
const KEEPALIVE: Duration = Duration::from_secs(2);

impl Endpoints {
    pub(crate) fn new(
        address: &EtcdAddress,
        tls: Option<EtcdTls>,
        credentials: Option<EtcdCredentials>,
    ) -> Result<Self, tonic::transport::Error> {
        let scheme = if address.is_tls() { "https" } else { "http" };
        let channel = |host: &String| {
            let mut endpoint = Endpoint::from_shared(format!("{scheme}://{host}"))?
                .connect_timeout(CONNECT)
                .tcp_nodelay(true)
                .http2_keep_alive_interval(KEEPALIVE)
                .keep_alive_timeout(KEEPALIVE)
                .keep_alive_while_idle(true);
            if address.is_tls() {
                let mut config = ClientTlsConfig::new();
                if let Some(EtcdTls { ca, identity }) = &tls {
                    config = config.ca_certificate(Certificate::from_pem(ca));
                    if let Some((certificate, key)) = identity {
                        config = config.identity(Identity::from_pem(certificate, key));
                    }
                }
                endpoint = endpoint.tls_config(config)?;
            }
            Ok(endpoint.connect_lazy())
        };
        Ok(Self {
            channels: address.hosts().iter().map(channel).collect::<Result<_, tonic::transport::Error>>()?,
            current: AtomicUsize::new(0),
            switches: AtomicU64::new(0),
            credentials,
            token: Mutex::default(),
        })
    }

    /// How often another endpoint came into use.
    pub(crate) fn switches(&self) -> u64 {
        self.switches.load(Ordering::Relaxed)
    }

    /// Calls the endpoint in use, and another one only if it is certain that the call had no effect.
    pub(crate) async fn call<T, F>(&self, limit: Duration, act: impl Fn(Caller) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let mut last = None;
        // Each endpoint once, and once more with a new token.
        for _ in 0..=self.channels.len() {
            match self.attempt(limit, &act).await {
                Ok(answer) => return Ok(answer),
                Err(Failure::Refused(status)) if self.renews_token(&status) => last = Some(Failure::Refused(status)),
                Err(Failure::NotSent(status)) => last = Some(Failure::NotSent(status)),
                Err(failure) => return Err(failure),
            }
        }
        Err(last.unwrap_or_else(|| Failure::NotSent(Status::unavailable("no endpoint"))))
    }

    /// Calls one endpoint after the other until one answers: for what has no effect, or may have it twice.
    pub(crate) async fn call_again<T, F>(&self, limit: Duration, act: impl Fn(Caller) -> F) -> Result<T, Status>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let mut last = Status::unavailable("no endpoint");
        for _ in 0..=self.channels.len() {
            match self.attempt(limit, &act).await {
                Ok(answer) => return Ok(answer),
                Err(Failure::Refused(status)) if !self.renews_token(&status) => return Err(status),
                Err(failure) => last = failure.status(),
            }
        }
        Err(last)
    }

    /// One call to the endpoint in use; if it does not answer, the next one is in use.
    async fn attempt<T, F>(&self, limit: Duration, act: &impl Fn(Caller) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let at = self.current.load(Ordering::Relaxed);
        let caller = match time::timeout(limit, self.caller(at)).await {
            Ok(Ok(caller)) => caller,
            Ok(Err(status)) => return Err(self.judge(at, status, true)),
            Err(_) => return Err(self.judge(at, Status::deadline_exceeded("no answer in time"), true)),
        };
        match time::timeout(limit, act(caller)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(status)) => Err(self.judge(at, status, false)),
            Err(_) => Err(self.judge(at, Status::deadline_exceeded("no answer in time"), false)),
        }
    }

    /// What a status says of the effect of a call.
    fn judge(&self, at: usize, status: Status, before_sending: bool) -> Failure {
        if is_refusal(&status) {
            return Failure::Refused(status);
        }
        self.leave(at);
        match before_sending || could_not_connect(&status) {
            true => Failure::NotSent(status),
            false => Failure::Unanswered(status),
        }
    }

    /// Goes on to the next endpoint, unless another call has done so already.
    pub(crate) fn leave(&self, at: usize) {
        let next = (at + 1) % self.channels.len();
        if next != at && self.current.compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.switches.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The endpoint in use and its number, for a stream.
    pub(crate) async fn stream_caller(&self) -> Result<(usize, Caller), Status> {
        let at = self.current.load(Ordering::Relaxed);
        let late = |_| Status::deadline_exceeded("no answer in time");
        let caller = time::timeout(super::ATTEMPT, self.caller(at)).await.map_err(late).flatten();
        caller.map(|caller| (at, caller)).inspect_err(|status| {
            if !self.renews_token(status) {
                self.leave(at);
            }
        })
    }

    async fn caller(&self, at: usize) -> Result<Caller, Status> {
        let channel = self.channels[at].clone();
        let Some(EtcdCredentials { user, password }) = self.credentials.clone() else {
            return Ok(Caller { channel, token: None });
        };
        if let Some(token) = self.token().clone() {
            return Ok(Caller { channel, token: Some(token) });
        }
        let login = AuthenticateRequest { name: user, password };
        let answer = AuthClient::new(channel.clone()).authenticate(login).await?.into_inner();
        let token: MetadataValue<Ascii> =
            answer.token.parse().map_err(|_| Status::internal("etcd's token is no header"))?;
        *self.token() = Some(token.clone());
        Ok(Caller { channel, token: Some(token) })
    }

    /// Forgets the token if it is refused: true if a new one can be had.
    pub(crate) fn renews_token(&self, status: &Status) -> bool {
        self.credentials.is_some() && is_bad_token(status) && self.token().take().is_some()
    }

    fn token(&self) -> std::sync::MutexGuard<'_, Option<MetadataValue<Ascii>>> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tokens end, and are of the past when users were changed.
fn is_bad_token(status: &Status) -> bool {
    status.code() == Code::Unauthenticated || status.message().contains("revision of auth store is old")
}

/// How all that etcd itself says of an error begins.
const OF_ETCD: &str = "etcdserver: ";
/// Said by a member before it proposes a transaction, when it has many to apply.
const TOO_MANY_REQUESTS: &str = "etcdserver: too many requests";

/// Whether etcd said no, and did nothing. All other errors leave it open what happened.
fn is_refusal(status: &Status) -> bool {
    // Proxies, HTTP/2 and our own side give the same codes, also in the middle of a call.
    status.message().starts_with(OF_ETCD)
        && match status.code() {
            // Said before a transaction is proposed, or by what checks it before it is applied.
            Code::InvalidArgument
            | Code::FailedPrecondition
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::OutOfRange
            | Code::NotFound
            | Code::Unimplemented => true,
            // A member that runs out of space applies the transaction, and then says that there is none.
            Code::ResourceExhausted => status.message() == TOO_MANY_REQUESTS,
            // Said when a member stops waiting for what it has proposed: time-outs, a change of the leader, its own end.
            Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Unknown => false,
            Code::Ok | Code::Internal | Code::DataLoss | Code::Aborted | Code::AlreadyExists => false,
        }
}

/// Whether a call ended before it began.
fn could_not_connect(status: &Status) -> bool {
    let mut cause = std::error::Error::source(status);
    while let Some(source) = cause {
        if source.is::<ConnectError>() {
            return true;
        }
        cause = source.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_only_what_etcd_says_before_it_acts_is_a_refusal() {
        #[track_caller]
        fn check(code: Code, message: &str, expected: bool) {
            assert_eq!(is_refusal(&Status::new(code, message)), expected, "{code:?}: {message}");
        }
        check(Code::InvalidArgument, "etcdserver: duplicate key given in txn request", true);
        check(Code::InvalidArgument, "etcdserver: request is too large", true);
        check(Code::InvalidArgument, "etcdserver: revision of auth store is old", true);
        check(Code::Unauthenticated, "etcdserver: invalid auth token", true);
        check(Code::PermissionDenied, "etcdserver: permission denied", true);
        check(Code::OutOfRange, "etcdserver: mvcc: required revision has been compacted", true);
        check(Code::NotFound, "etcdserver: requested lease not found", true);
        check(Code::ResourceExhausted, "etcdserver: too many requests", true);
        check(Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded", false);
        for message in [
            "etcdserver: leader changed",
            "etcdserver: no leader",
            "etcdserver: server stopped",
            "etcdserver: request timed out",
            "etcdserver: request timed out, possibly due to previous leader failure",
            "etcdserver: request timed out, possibly due to connection lost",
        ] {
            check(Code::Unavailable, message, false);
        }
        check(Code::Unknown, "raft proposal dropped", false);
        check(Code::Cancelled, "context canceled", false);
        // Said by others on the way.
        check(Code::PermissionDenied, "RBAC: access denied", false);
        check(Code::OutOfRange, "decoded message length too large", false);
        check(Code::ResourceExhausted, "h2 protocol error: http2 error", false);
    }
}
