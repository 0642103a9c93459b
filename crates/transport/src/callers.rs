//! Identifies the caller of a call, and checks its permissions.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures_util::{Stream, StreamExt, future, stream};
use kent_access::Action;
use kent_engine::{
    audit::By,
    auth::{Auth, Caller, Credentials, Denied},
    engine::Engine,
    host::address::Host,
    status,
};
use tokio::time;
use tonic::{Request, Status};

use crate::peer::{self, Peer, authorization};

/// Returns the caller of a call, even if the caller has no permission.
pub fn caller<T>(engine: &Engine, request: &Request<T>) -> Result<Caller, Status> {
    match request.extensions().get::<Caller>() {
        Some(caller) => Ok(caller.clone()),
        // The port has not identified the caller, because the daemon does not require credentials or has no ports.
        None => {
            identify(engine.auth(), request, engine.clock().steady()).map_err(|denied| status::from_denied(&denied))
        }
    }
}

/// Returns the caller of a call, if the caller may take this action on the daemon as a whole.
pub fn caller_who_may<T>(engine: &Engine, request: &Request<T>, action: Action) -> Result<Caller, Status> {
    let caller = caller(engine, request)?;
    caller.check_daemon(action).map_err(|denied| status::from_denied(&denied))?;
    Ok(caller)
}

/// Identifies the caller of a call that began at `now`, on the steady clock.
// Always inlined, because every call uses it, and whether the compiler would inline it depends on unrelated code.
#[inline(always)]
pub(crate) fn identify<T>(auth: &Auth, request: &Request<T>, now: Duration) -> Result<Caller, Denied> {
    if !auth.is_required() {
        return Ok(Caller::ANYONE);
    }
    let (header, peer) = (authorization(request.metadata().as_ref()), request.extensions().get::<Peer>());
    match peer.and_then(|peer| auth.remembered(peer.known(), header, now)) {
        Some(caller) => Ok(caller),
        None => identify_anew(auth, header, peer, now),
    }
}

/// Identifies a caller whose identity the connection has not cached.
#[cold]
fn identify_anew(auth: &Auth, header: Option<&[u8]>, peer: Option<&Peer>, now: Duration) -> Result<Caller, Denied> {
    auth.identify(&shown(header, peer), now)
}

fn shown<'c>(header: Option<&'c [u8]>, peer: Option<&'c Peer>) -> Credentials<'c> {
    match peer {
        Some(peer) => peer.credentials(header),
        None => Credentials::unknown(header),
    }
}

/// The author of a change.
#[derive(Debug)]
pub struct Author {
    /// The caller.
    pub caller: Caller,
    /// The author as the audit log names it.
    pub by: By,
    host: Option<Host>,
}

/// Returns the author of a change, even if the author has no permission.
pub fn author<T>(engine: &Engine, request: &Request<T>) -> Result<Author, Status> {
    let caller = caller(engine, request)?;
    let peer = request.extensions().get::<Peer>();
    let certificate = peer.and_then(|peer| peer.certificate.as_ref()?.name.clone());
    let by = By {
        principal: caller.proved().map(str::to_owned).or_else(|| certificate.clone()).unwrap_or_default(),
        on_behalf_of: on_behalf_of(request),
        peer: peer.map(|peer| peer.address.to_string()).unwrap_or_default(),
        certificate: certificate.unwrap_or_default(),
    };
    Ok(Author { caller, by, host: peer.map(|peer| peer.address.host()) })
}

/// Returns the author of a change, if the author may take this action on the daemon as a whole.
pub fn author_who_may<T>(engine: &Engine, request: &Request<T>, action: Action) -> Result<Author, Status> {
    let author = author(engine, request)?;
    author.caller.check_daemon(action).map_err(|denied| status::from_denied(&denied))?;
    Ok(author)
}

impl Author {
    /// Describes the author for the history of a table: the authenticated identity, the name that the caller claims,
    /// and the host.
    pub fn describe(&self) -> String {
        let By { principal, on_behalf_of, .. } = &self.by;
        let described = match (principal.as_str(), on_behalf_of.as_str()) {
            (proved, "") => proved.to_owned(),
            ("", name) => name.to_owned(),
            (proved, name) => format!("{proved} on behalf of {name}"),
        };
        match (described.as_str(), self.host) {
            ("", Some(host)) => host.to_string(),
            (described, Some(host)) => format!("{described} from {host}"),
            (described, None) => described.to_owned(),
        }
    }
}

/// Returns the unverified name that a caller gives in `kent-principal`.
pub fn on_behalf_of<T>(request: &Request<T>) -> String {
    peer::on_behalf_of(request.metadata().as_ref())
}

/// The maximum time between two checks of whether the caller of a long call must be identified again.
const RENEW_WITHIN: Duration = Duration::from_secs(1);

/// The caller of a long call. The daemon identifies the caller again when tokens or roles change, and when the caller's
/// token may have ended.
#[derive(Clone, Debug)]
pub struct Session {
    auth: Arc<Auth>,
    header: Option<Box<[u8]>>,
    peer: Option<Peer>,
    caller: Caller,
}

impl Session {
    /// Identifies the caller of a long call.
    pub fn begin<T>(engine: &Engine, request: &Request<T>) -> Result<Self, Status> {
        Ok(Self {
            auth: engine.auth().clone(),
            header: authorization(request.metadata().as_ref()).map(Into::into),
            peer: request.extensions().get().cloned(),
            caller: caller(engine, request)?,
        })
    }

    /// The caller, as identified last.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Identifies the caller again, if necessary.
    ///
    /// # Errors
    ///
    /// [`Denied`] if its token was revoked or has ended.
    pub fn renew(&mut self, now: Duration) -> Result<(), Denied> {
        if !self.auth.is_current(&self.caller, now) {
            let asked = self.caller.asked().cloned().unwrap_or_default();
            let shown = shown(self.header.as_deref(), self.peer.as_ref());
            let caller = self.auth.identify(&shown, now).map_err(|denied| denied.of_call(asked.clone()))?;
            self.caller = caller.asking(asked);
        }
        Ok(())
    }

    /// Ends a long answer when its caller may no longer operate the daemon.
    pub fn while_operator<T: Send + Sync + 'static>(
        self,
        engine: Arc<Engine>,
        parts: impl Stream<Item = Result<T, Status>> + Send + 'static,
    ) -> impl Stream<Item = Result<T, Status>> + Send + 'static {
        let (lost, losing) =
            (Arc::new(OnceLock::new()), self.lost(engine, |caller| caller.check_daemon(Action::Operate)));
        let reason = lost.clone();
        let ended = async move { drop(lost.set(losing.await)) };
        let last = stream::once(async move { reason.get().map(|denied| Err(status::from_denied(denied))) });
        parts.take_until(ended).chain(last.filter_map(future::ready))
    }

    /// Waits until the caller loses the permission for this call.
    pub async fn lost(mut self, engine: Arc<Engine>, is_allowed: impl Fn(&Caller) -> Result<(), Denied>) -> Denied {
        let mut changed = self.auth.table().changed();
        loop {
            changed.mark_unchanged();
            if let Err(denied) = self.renew(engine.clock().steady()).and_then(|()| is_allowed(&self.caller)) {
                return denied;
            }
            match self.auth.is_required() {
                // OK because a timeout is one of the reasons to identify the caller again.
                true => drop(time::timeout(RENEW_WITHIN, changed.changed()).await),
                false => std::future::pending().await,
            }
        }
    }
}
