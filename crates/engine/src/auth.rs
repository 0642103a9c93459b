//! Identifies callers and their permissions.
//!
//! A caller proves its identity with a token or a certificate, or by connecting to the Unix socket as the daemon's own
//! user. [`Auth`] identifies the caller of each call without reading the store. A connection caches its last caller, so
//! most calls only compare a header, the generation of the access table and a time.

mod cache;
mod caller;
mod denied;
mod limited;
mod table;
mod usage;

use std::{sync::Arc, time::Duration};

use kent_access::{Holder, LimitKind, Limits, Presented, Rights};

pub use self::{
    cache::KnownCaller,
    caller::{Caller, Principal},
    denied::{Asked, Denied, DeniedTo, denials, denied},
    table::{AccessTable, Snapshot, Write},
    usage::Open,
};
use self::{
    caller::Known,
    usage::{Rates, Usages},
};
use crate::{
    budgets::{Budgets, Purse},
    host::{address::Address, clock::Clock, touch::Touch},
};

/// Identifies callers.
#[derive(Debug)]
pub struct Auth {
    is_required: bool,
    table: Arc<AccessTable>,
    budgets: Arc<Budgets>,
    clock: Arc<dyn Clock>,
    /// When this replica last reached the store; `None` if no other replica can share the store.
    touch: Option<Arc<Touch>>,
    usages: Usages,
}

/// What a call presents to prove its caller's identity.
#[derive(Clone, Copy, Debug)]
pub struct Credentials<'c> {
    /// The `authorization` header.
    pub header: Option<&'c [u8]>,
    /// The caller's certificate, if it has a name. A CA from `--tls-client-ca` has signed the certificate.
    pub certificate: Option<NamedCertificate<'c>>,
    /// Whether the caller has a certificate with neither a URI nor a DNS name.
    pub is_nameless: bool,
    /// Whether the connection comes from the daemon's own user through its Unix socket.
    pub is_local: bool,
    /// The peer address of the connection.
    pub address: Option<Address>,
    /// The cached caller of the connection.
    pub known: Option<&'c KnownCaller>,
}

/// A certificate that names its caller.
#[derive(Clone, Copy, Debug)]
pub struct NamedCertificate<'c> {
    /// The name in the certificate.
    pub name: &'c str,
    /// When the certificate expires, in milliseconds since 1970.
    pub expires: i64,
}

impl<'c> Credentials<'c> {
    /// The credentials of a call whose connection is unknown.
    pub const fn unknown(header: Option<&'c [u8]>) -> Self {
        Self { header, certificate: None, is_nameless: false, is_local: false, address: None, known: None }
    }
}

/// The time after which a caller is identified again. If the wall clock steps forward, this bounds how long a cached
/// caller stays valid after its token expires.
const KNOWN_FOR: Duration = Duration::from_secs(60);

impl Auth {
    /// `limits` apply to callers that have no limits of their own.
    pub fn new(
        is_required: bool,
        (table, budgets): (Arc<AccessTable>, Arc<Budgets>),
        clock: Arc<dyn Clock>,
        touch: Option<Arc<Touch>>,
        limits: Limits,
    ) -> Self {
        Self { is_required, table, budgets, clock, touch, usages: Usages::new(limits) }
    }

    /// Whether callers must prove who they are.
    #[inline]
    pub fn is_required(&self) -> bool {
        self.is_required
    }

    /// The tokens, roles and budgets.
    pub fn table(&self) -> &Arc<AccessTable> {
        &self.table
    }

    /// The number of refusals for each kind of limit.
    pub(crate) fn limited(&self) -> impl Iterator<Item = (LimitKind, u64)> {
        self.usages.refused()
    }

    /// This replica's shares of the budgets.
    pub(crate) fn budgets(&self) -> &Arc<Budgets> {
        &self.budgets
    }

    /// The wall clock, in milliseconds since 1970.
    pub fn unix_ms(&self) -> i64 {
        i64::try_from(self.clock.wall().get() / 1_000_000).unwrap_or(i64::MAX)
    }

    /// Identifies the caller of a call that began at `now`, on the steady clock.
    ///
    /// # Errors
    ///
    /// [`Denied`].
    pub fn identify(&self, shown: &Credentials<'_>, now: Duration) -> Result<Caller, Denied> {
        if !self.is_required {
            return Ok(Caller::ANYONE);
        }
        if shown.header.is_none() && shown.is_local {
            return Ok(Caller::LOCAL);
        }
        let generation = self.table.generation();
        if let Some(caller) = shown.known.and_then(|known| self.remembered(known, shown.header, now)) {
            return Ok(caller);
        }
        let (principal, until) = match (shown.header, shown.certificate) {
            (None, None) => {
                let to = DeniedTo::unknown(shown.address);
                return Err(if shown.is_nameless { Denied::NamelessCertificate(to) } else { Denied::NoCredential(to) });
            }
            _ if !self.is_in_touch() => return Err(Denied::OutOfTouch(DeniedTo::unknown(shown.address))),
            (Some(header), _) => self.by_token(header, shown.address, now)?,
            (None, Some(certificate)) => self.by_certificate(certificate, now),
        };
        let until = (now + until.min(KNOWN_FOR)).as_secs();
        let rates = Rates::new(&principal.limits);
        let known = Arc::new(Known { principal, rates, address: shown.address, generation, until });
        if let Some(remembering) = shown.known {
            let refused =
                |limited| Denied::Limited(DeniedTo::new(known.principal.name.clone(), shown.address), limited);
            remembering.set(shown.header, known.clone()).map_err(refused)?;
        }
        Ok(Caller::identified(known))
    }

    /// The caller that a connection remembers, if the credentials of the call are the same and no token or role has
    /// changed since the caller was identified. Most calls find their caller this way.
    #[inline(always)]
    pub fn remembered(&self, known: &KnownCaller, header: Option<&[u8]>, now: Duration) -> Option<Caller> {
        let known = known.get(self.table.generation(), header, now)?;
        self.is_in_touch().then(|| Caller::identified(known))
    }

    /// Whether a caller that was identified earlier is still valid: no token or role has changed since then, and the
    /// caller need not be identified again.
    #[inline]
    pub fn is_current(&self, caller: &Caller, now: Duration) -> bool {
        let is_current = |known: &Known| known.is_as_of(self.table.generation(), now) && self.is_in_touch();
        caller.known().is_none_or(is_current)
    }

    /// Whether this replica's copy of the tokens and roles is recent enough to serve callers.
    #[inline]
    fn is_in_touch(&self) -> bool {
        self.touch.as_ref().is_none_or(|touch| touch.is_recent())
    }

    /// Returns the principal of a token, and how long the token remains valid.
    fn by_token(
        &self,
        header: &[u8],
        address: Option<Address>,
        steady: Duration,
    ) -> Result<(Principal, Duration), Denied> {
        let unknown = || Denied::BadCredential(DeniedTo::unknown(address));
        let presented = bearer(header).and_then(|token| Presented::parse(token).ok()).ok_or_else(unknown)?;
        let hash = presented.hash();
        let snapshot = self.table.snapshot();
        let token = snapshot.token(presented.id()).ok_or_else(unknown)?;
        let now = self.unix_ms();
        let principal = || format!("token:{} ({})", token.id, token.name);
        let expires = match token.check(&hash, now).ok_or_else(unknown)? {
            Ok(expires) => expires,
            Err(reason) => return Err(Denied::Refused(DeniedTo::new(principal(), address), reason)),
        };
        let purse = self.purse(&snapshot, Some(Holder::Token(token.id)), &token.roles);
        let roles = token.roles.iter().filter_map(|name| snapshot.role(name));
        let limits = roles.clone().fold(Limits::default(), |limits, role| limits.greatest(role.limits));
        let rights = roles.flat_map(|role| role.rights.iter()).chain(&token.rights).cloned().collect();
        let left = expires.map_or(Duration::MAX, |end| Duration::from_millis(u64::try_from(end - now).unwrap_or(0)));
        let (name, roles, identity) = (principal(), token.roles.clone(), format!("token:{}", token.id));
        let limits = token.limits.or(limits).or(self.usages.defaults());
        let usage = self.usages.of(&name, steady);
        Ok((Principal { name, identity, rights: Rights::new(rights), roles, expires, limits, usage, purse }, left))
    }

    /// Returns the principal of a certificate. The principal has no time limit, because the connection ends when the
    /// certificate expires.
    fn by_certificate(&self, certificate: NamedCertificate<'_>, steady: Duration) -> (Principal, Duration) {
        let NamedCertificate { name, expires } = certificate;
        let snapshot = self.table.snapshot();
        let roles: Vec<_> = snapshot.roles().filter(|role| role.has_certificate(name)).collect();
        let rights = roles.iter().flat_map(|role| role.rights.iter()).cloned().collect();
        let limits = roles.iter().fold(Limits::default(), |limits, role| limits.greatest(role.limits));
        let name = format!("certificate:{name}");
        let roles: Vec<_> = roles.iter().map(|role| role.name.clone()).collect();
        let principal = Principal {
            usage: self.usages.of(&name, steady),
            identity: name.clone(),
            name,
            rights: Rights::new(rights),
            purse: self.purse(&snapshot, None, &roles),
            roles,
            expires: Some(expires),
            limits: limits.or(self.usages.defaults()),
        };
        (principal, Duration::MAX)
    }

    /// The budgets of a caller and of its roles.
    fn purse(&self, present: &Snapshot, own: Option<Holder>, roles: &[String]) -> Purse {
        if present.budgets().is_empty() {
            return Purse::default();
        }
        let holders: Vec<_> = own.into_iter().chain(roles.iter().cloned().map(Holder::Role)).collect();
        let budgets = holders.iter().flat_map(|holder| present.budgets_of(holder));
        Purse::new(budgets.map(|budget| self.budgets.account(budget, present.version())).collect())
    }
}

/// The token in an `authorization: Bearer TOKEN` header.
fn bearer(header: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = header.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then(|| token.trim_ascii())
}

const SCHEME: &[u8] = b"bearer ";

#[cfg(test)]
mod tests;
