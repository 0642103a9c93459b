//! Calls the members of an etcd cluster: selects a member, adds the token, and classifies failures.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{fmt, fs, io};

use kent_tls::{BadHost, Certificates, Target};
use tokio::time;
use tonic::codegen::{InterceptedService, http::Uri};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, ConnectError, Request, Status};
use tracing::warn;

use super::EtcdOpenError;
use super::address::EtcdAddress;
use super::pb::etcdserverpb::{AuthenticateRequest, auth_client::AuthClient};

/// A user of etcd.
#[derive(Clone)]
pub struct EtcdCredentials {
    /// The name of the user.
    pub user: String,
    /// The password of the user.
    pub password: EtcdPassword,
}

/// The source of a password.
#[derive(Clone)]
pub enum EtcdPassword {
    /// The password itself.
    Text(String),
    /// The path of a file that is read at every login. Trailing white space is ignored.
    File(PathBuf),
}

impl EtcdPassword {
    fn read(self) -> io::Result<String> {
        match self {
            Self::Text(password) => Ok(password),
            Self::File(path) => Ok(String::from_utf8_lossy(&fs::read(path)?).trim_end().to_owned()),
        }
    }
}

impl fmt::Debug for EtcdCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdCredentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// The endpoints of the cluster.
#[derive(Debug)]
pub(crate) struct Endpoints {
    /// `HOST:PORT` of each endpoint.
    hosts: Vec<String>,
    channels: Vec<Channel>,
    /// The index of the current endpoint.
    current: AtomicUsize,
    /// The number of times that the current endpoint has changed.
    switches: AtomicU64,
    credentials: Option<EtcdCredentials>,
    token: Mutex<Option<MetadataValue<Ascii>>>,
    /// The password that was read last.
    password: Mutex<Option<String>>,
}

/// A failed call.
#[derive(Debug)]
pub(crate) enum Failure {
    /// No connection was made. The call had no effect.
    NotSent(Status),
    /// etcd refused the call. It had no effect.
    Refused(Status),
    /// There was no reply. The call may have had an effect.
    Unanswered(Status),
}

impl Failure {
    fn status(self) -> Status {
        match self {
            Self::NotSent(status) | Self::Refused(status) | Self::Unanswered(status) => status,
        }
    }
}

/// A member and the token for calls to it.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    channel: Channel,
    token: Option<MetadataValue<Ascii>>,
}

/// A channel that adds the token to its calls.
pub(crate) type Authorized = InterceptedService<Channel, Token>;

/// Adds the token, and requires that the member has a leader: a member that is cut off from the others would not answer
/// in time.
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
    pub(crate) fn service(&self) -> Authorized {
        InterceptedService::new(self.channel.clone(), Token(self.token.clone()))
    }
}

const CONNECT: Duration = Duration::from_secs(1);
const KEEPALIVE: Duration = Duration::from_secs(2);

impl Endpoints {
    pub(crate) fn new(
        address: &EtcdAddress,
        tls: Option<&Certificates>,
        credentials: Option<EtcdCredentials>,
    ) -> Result<Self, EtcdOpenError> {
        let tls = match (address.is_tls(), tls) {
            (true, None) => return Err(EtcdOpenError::NoCertificates),
            (true, tls) => tls,
            (false, _) => None,
        };
        let settings = |endpoint: Endpoint| {
            endpoint
                .connect_timeout(CONNECT)
                .tcp_nodelay(true)
                .http2_keep_alive_interval(KEEPALIVE)
                .keep_alive_timeout(KEEPALIVE)
                .keep_alive_while_idle(true)
        };
        let channel = |host: &String| {
            let scheme = if tls.is_some() { "https" } else { "http" };
            let uri: Uri = format!("{scheme}://{host}").parse().map_err(|_| BadHost { host: host.clone() })?;
            let target = match tls {
                Some(certificates) => Target::secure(&uri, certificates, CONNECT, settings)?,
                None => Target::plain(settings(Endpoint::from(uri))),
            };
            Ok(target.connect_lazy())
        };
        Ok(Self {
            hosts: address.hosts().to_vec(),
            channels: address.hosts().iter().map(channel).collect::<Result<_, BadHost>>()?,
            current: AtomicUsize::new(0),
            switches: AtomicU64::new(0),
            credentials,
            token: Mutex::default(),
            password: Mutex::default(),
        })
    }

    /// Returns the number of times that the current endpoint has changed.
    pub(crate) fn switches(&self) -> u64 {
        self.switches.load(Ordering::Relaxed)
    }

    /// Returns `HOST:PORT` of each endpoint, in order.
    pub(crate) fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// Calls one endpoint without changing the current endpoint.
    pub(crate) async fn call_at<T, F>(&self, at: usize, limit: Duration, act: impl Fn(Caller) -> F) -> Result<T, Status>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let call = async { act(self.caller(at).await?).await };
        time::timeout(limit, call).await.unwrap_or_else(|_| Err(Status::deadline_exceeded("no reply in time")))
    }

    /// Calls the current endpoint. Repeats the call at another endpoint only if it is certain that the call had no
    /// effect.
    pub(crate) async fn call<T, F>(&self, limit: Duration, act: impl Fn(Caller) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let mut last = None;
        // Tries each endpoint once, and makes one more attempt with a new token.
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

    /// Calls each endpoint in turn until one answers, for calls that can be repeated safely.
    pub(crate) async fn call_idempotent<T, F>(&self, limit: Duration, act: impl Fn(Caller) -> F) -> Result<T, Status>
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

    /// Makes one call to the current endpoint. If it does not answer, the next one becomes the current endpoint.
    async fn attempt<T, F>(&self, limit: Duration, act: &impl Fn(Caller) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let at = self.current.load(Ordering::Relaxed);
        let caller = match time::timeout(limit, self.caller(at)).await {
            Ok(Ok(caller)) => caller,
            Ok(Err(status)) => return Err(self.judge(at, status, true)),
            Err(_) => return Err(self.judge(at, Status::deadline_exceeded("no reply in time"), true)),
        };
        match time::timeout(limit, act(caller)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(status)) => Err(self.judge(at, status, false)),
            Err(_) => Err(self.judge(at, Status::deadline_exceeded("no reply in time"), false)),
        }
    }

    /// Classifies a failed call. Unless etcd refused the call, switches to the next endpoint.
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

    /// Switches to the next endpoint, unless another call has already done so.
    pub(crate) fn leave(&self, at: usize) {
        let next = (at + 1) % self.channels.len();
        if next != at && self.current.compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.switches.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the current endpoint and its index, for a stream.
    pub(crate) async fn stream_caller(&self) -> Result<(usize, Caller), Status> {
        let at = self.current.load(Ordering::Relaxed);
        let late = |_| Status::deadline_exceeded("no reply in time");
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
        // etcd rejects the token after its users have changed, so a changed password is read at the next login.
        let password = self.password(&user, password)?;
        let login = AuthenticateRequest { name: user, password };
        let answer = AuthClient::new(channel.clone()).authenticate(login).await?.into_inner();
        let token: MetadataValue<Ascii> =
            answer.token.parse().map_err(|_| Status::internal("etcd's token is not a valid header"))?;
        *self.token() = Some(token.clone());
        Ok(Caller { channel, token: Some(token) })
    }

    /// Reads the password. If the password file cannot be read, for example while it is being replaced, the previous
    /// password stays in use.
    fn password(&self, user: &str, password: EtcdPassword) -> Result<String, Status> {
        let mut last = self.password.lock().unwrap_or_else(PoisonError::into_inner);
        match (password.read(), &*last) {
            (Ok(read), _) => Ok(last.insert(read).clone()),
            (Err(error), Some(last)) => {
                warn!(%error, user, "the file with the password for etcd cannot be read; the previous password stays in use");
                Ok(last.clone())
            }
            (Err(error), None) => Err(Status::failed_precondition(format!(
                "the file with the password of {user:?} cannot be read: {error}"
            ))),
        }
    }

    /// Discards the token if etcd has rejected it. Returns true if this call discarded a token, so that the next
    /// attempt gets a new one.
    pub(crate) fn renews_token(&self, status: &Status) -> bool {
        self.credentials.is_some() && is_bad_token(status) && self.token().take().is_some()
    }

    fn token(&self) -> std::sync::MutexGuard<'_, Option<MetadataValue<Ascii>>> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns true if etcd rejected the token: tokens expire, and become invalid when users change.
fn is_bad_token(status: &Status) -> bool {
    status.code() == Code::Unauthenticated || status.message().contains("revision of auth store is old")
}

/// The prefix of the error messages that etcd itself creates.
const ETCD_PREFIX: &str = "etcdserver: ";
/// The error message of a busy member, returned before it proposes a transaction.
const TOO_MANY_REQUESTS: &str = "etcdserver: too many requests";

/// Returns true if etcd refused a call and did nothing. After all other errors the outcome is unknown.
fn is_refusal(status: &Status) -> bool {
    // The prefix is necessary because proxies, HTTP/2 and this client use the same codes, even in the middle of a call.
    status.message().starts_with(ETCD_PREFIX)
        && match status.code() {
            // etcd returns these codes before it proposes a transaction, or from checks before it applies one.
            Code::InvalidArgument
            | Code::FailedPrecondition
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::OutOfRange
            | Code::NotFound
            | Code::Unimplemented => true,
            // A member that runs out of space applies the transaction and then returns an error.
            Code::ResourceExhausted => status.message() == TOO_MANY_REQUESTS,
            // A member returns these codes when it stops waiting for its proposal: on a timeout, a leader change or its
            // own shutdown.
            Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Unknown => false,
            Code::Ok | Code::Internal | Code::DataLoss | Code::Aborted | Code::AlreadyExists => false,
        }
}

/// Returns true if the connection failed before the call was sent.
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
    fn ok_only_errors_from_before_a_proposal_are_refusals() {
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
        // Proxies or the client return these errors.
        check(Code::PermissionDenied, "RBAC: access denied", false);
        check(Code::OutOfRange, "decoded message length too large", false);
        check(Code::ResourceExhausted, "h2 protocol error: http2 error", false);
    }
}
