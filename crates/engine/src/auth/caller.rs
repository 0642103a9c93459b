//! The caller of a call: its identity and its permissions.

use std::{sync::Arc, time::Duration};

use kent_access::{Action, Limits, Rights, Target};

use super::{
    denied::{Asked, Denied, DeniedTo},
    usage::{Rates, Usage},
};
use crate::{
    budgets::{Account, Charge, Purse},
    host::address::Address,
};

/// A caller that was identified by a token or a certificate.
#[derive(Debug)]
pub struct Principal {
    /// `token:ID (NAME)` or `certificate:NAME`.
    pub(crate) name: String,
    /// `token:ID` or `certificate:NAME`. The principal's request IDs belong to this identity. Rotating the token does
    /// not change the identity.
    pub(crate) identity: String,
    /// What the caller may do.
    pub rights: Rights,
    /// The names of the principal's roles.
    pub roles: Vec<String>,
    /// When the token or certificate expires, in milliseconds since 1970.
    pub expires: Option<i64>,
    /// How much the caller may do.
    pub limits: Limits,
    /// The principal's usage on all its connections, which counts against the principal's limits.
    pub(super) usage: Arc<Usage>,
    /// The budgets, which limit how many identifiers the principal may take in total.
    pub(crate) purse: Purse,
}

/// A principal that was identified on a connection.
#[derive(Debug)]
pub(crate) struct Known {
    pub(super) principal: Principal,
    /// The rates of the principal's limits.
    pub(super) rates: Rates,
    pub(super) address: Option<Address>,
    /// The generation of the access table that the principal's rights come from.
    pub(super) generation: u64,
    /// When the principal must be identified again, in seconds on the steady clock, so that each call compares only an
    /// integer. Rounded down, because identifying a caller too early does no harm.
    pub(super) until: u64,
}

impl Known {
    /// Whether the principal was identified with this generation of the access table, and need not be identified again
    /// at `now`.
    #[inline]
    pub(super) fn is_as_of(&self, generation: u64, now: Duration) -> bool {
        self.generation == generation && now.as_secs() < self.until
    }
}

/// The caller of a call, and its permissions. The type is small, because each call moves it.
#[derive(Clone, Debug)]
pub struct Caller {
    who: Who,
    /// The method and the request ID, for the audit log if the call is refused.
    asked: Option<Arc<Asked>>,
}

#[derive(Clone, Debug)]
enum Who {
    /// The daemon itself.
    Daemon,
    /// Anyone, because the daemon requires no credentials.
    Anyone,
    /// The daemon's own user.
    Local,
    Known(Arc<Known>),
}

impl Caller {
    /// The daemon itself.
    pub const DAEMON: Self = Self::of(Who::Daemon);

    /// Anyone, because the daemon requires no credentials.
    pub const ANYONE: Self = Self::of(Who::Anyone);
    pub(super) const LOCAL: Self = Self::of(Who::Local);

    const fn of(who: Who) -> Self {
        Self { who, asked: None }
    }

    #[inline]
    pub(super) fn identified(known: Arc<Known>) -> Self {
        Self::of(Who::Known(known))
    }

    /// Adds facts about the call to any refusal of the caller.
    pub fn asking(self, asked: Arc<Asked>) -> Self {
        Self { asked: Some(asked), ..self }
    }

    /// Adds the request ID to any refusal of the caller.
    pub fn with_request_id(self, request_id: &str) -> Self {
        match &self.asked {
            Some(asked) if !request_id.is_empty() => {
                let asked = asked.with_request_id(request_id);
                self.asking(asked)
            }
            _ => self,
        }
    }

    /// The method and the request ID, if they are known.
    pub fn asked(&self) -> Option<&Arc<Asked>> {
        self.asked.as_ref()
    }

    /// The name of the caller's token or certificate, or the kind of caller if there is neither.
    pub fn name(&self) -> &str {
        match &self.who {
            Who::Daemon => "kentd",
            Who::Anyone => "anyone",
            Who::Local => "local",
            Who::Known(known) => &known.principal.name,
        }
    }

    /// The name under which the caller owns its request IDs. The name is empty if the daemon does not require
    /// credentials.
    pub(crate) fn identity(&self) -> &str {
        match &self.who {
            Who::Daemon | Who::Local => self.name(),
            Who::Anyone => "",
            Who::Known(known) => &known.principal.identity,
        }
    }

    /// The caller's name, if the caller has proved it.
    pub fn proved(&self) -> Option<&str> {
        match &self.who {
            Who::Anyone => None,
            Who::Daemon | Who::Local | Who::Known(_) => Some(self.name()),
        }
    }

    /// The principal; `None` if the caller may do everything.
    #[inline]
    pub fn principal(&self) -> Option<&Principal> {
        self.known().map(|known| &known.principal)
    }

    /// Whether the caller may do `action` to `target`.
    #[inline]
    pub fn may(&self, action: Action, target: Target<'_>) -> bool {
        self.principal().is_none_or(|principal| principal.rights.may(action, target))
    }

    /// Charges `count` identifiers of a source to the caller's budgets.
    ///
    /// # Errors
    ///
    /// The account whose share on this replica is too small: reserve more, and try again.
    pub(crate) fn charge_budgets(&self, target: Target<'_>, count: u64) -> Result<Charge, Arc<Account>> {
        match self.principal() {
            Some(principal) => principal.purse.charge(target, count),
            None => Ok(Charge::default()),
        }
    }

    /// Fails if the caller may not do `action` to `target`. `names` returns the names of the space and the region as
    /// the caller wrote them, because the caller must not learn any other names.
    ///
    /// # Errors
    ///
    /// [`Denied`].
    pub fn check<'n>(
        &self,
        action: Action,
        target: Target<'_>,
        names: impl FnOnce() -> (&'n str, &'n str),
    ) -> Result<(), Denied> {
        match self.may(action, target) {
            true => Ok(()),
            false => {
                let (space, region) = names();
                Err(self.lacks(format!("{action}:{}", target.describe(space, region))))
            }
        }
    }

    /// Fails if the caller may not do `action` to the daemon as a whole.
    ///
    /// # Errors
    ///
    /// [`Denied`].
    pub fn check_daemon(&self, action: Action) -> Result<(), Denied> {
        self.check(action, Target::Daemon, || ("", ""))
    }

    /// The error for a missing permission.
    pub(crate) fn lacks(&self, permission: String) -> Denied {
        self.refusal(Denied::Missing(self.denied_to(), permission))
    }

    /// Adds facts about the call to a refusal.
    pub(super) fn refusal(&self, denied: Denied) -> Denied {
        match &self.asked {
            Some(asked) => denied.of_call(asked.clone()),
            None => denied,
        }
    }

    pub(super) fn denied_to(&self) -> DeniedTo {
        DeniedTo::new(self.name().to_owned(), self.known().and_then(|known| known.address))
    }

    /// The principal, if a token or a certificate identified the caller.
    #[inline]
    pub(super) fn known(&self) -> Option<&Known> {
        match &self.who {
            Who::Known(known) => Some(known),
            Who::Daemon | Who::Anyone | Who::Local => None,
        }
    }
}
