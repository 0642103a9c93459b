//! Changes to tokens, roles and budgets on behalf of callers.
//!
//! A caller can give others only rights for which it has `admin` permission. A token therefore never allows anything
//! that its creator may not do. A token also never outlives the credential of its creator.

mod budgets;

use std::sync::{Arc, Mutex, PoisonError};

use kent_access::{
    Action, Bound, BudgetId, GRACE_SECONDS_MAX, Holder, Limits, NamePattern, Needs, Outdated, Permission, Place,
    Presented, Right, Role, Token, TokenId, check_role_name, check_token_name,
};
use kent_ids::grouped;
use kent_proto::{model::Invalid, stored};
use kent_store::{VALUE_BYTES_MAX, Version};
use thiserror::Error;

use crate::{
    auth::{Auth, Caller, Denied, Snapshot, Write},
    host::entropy::Entropy,
    records::failure::StoreFailure,
    tables::directory::Directory,
};

pub use self::budgets::{BudgetLeft, BudgetsLeft, NewTotal};

/// Changes tokens, roles and budgets.
#[derive(Clone, Debug)]
pub struct Access {
    pub(crate) auth: Arc<Auth>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) entropy: Arc<dyn Entropy>,
}

/// A token to create.
#[derive(Clone, Debug)]
pub struct NewToken {
    /// The name, which the audit shows.
    pub name: String,
    /// The permissions, as text.
    pub permissions: Vec<String>,
    /// The names of the roles.
    pub roles: Vec<String>,
    /// The validity in seconds; 0 means that the token is valid as long as its creator's credential.
    pub valid_seconds: u64,
    /// The limits of callers with the token.
    pub limits: Limits,
    /// The token's budgets: each source, and the total number of identifiers that the token may take from it.
    pub budgets: Vec<(String, u64)>,
}

/// Which parts of a role to replace.
#[derive(Clone, Copy, Debug)]
pub struct RoleParts {
    pub(crate) permissions: bool,
    pub(crate) certificates: bool,
    pub(crate) limits: bool,
}

impl RoleParts {
    /// Parses the names of the parts. An empty list replaces all parts.
    ///
    /// # Errors
    ///
    /// A name is unknown.
    pub fn parse(names: &[String]) -> Result<Self, Invalid> {
        let unknown = names.iter().find(|name| !matches!(name.as_str(), "permissions" | "certificates" | "limits"));
        match unknown {
            Some(_) => {
                Err(Invalid::new("update", "names a part other than \"permissions\", \"certificates\" and \"limits\""))
            }
            None => {
                let has = |part: &str| names.is_empty() || names.iter().any(|name| name == part);
                Ok(Self { permissions: has("permissions"), certificates: has("certificates"), limits: has("limits") })
            }
        }
    }
}

/// Why tokens, roles or budgets were not changed.
#[derive(Debug, Error)]
pub enum AccessError {
    /// The caller may not make this change.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// A field of the request is invalid.
    #[error(transparent)]
    BadField(#[from] Invalid),
    /// There is no such token.
    #[error("there is no token {id} (kent token ls)")]
    NoSuchToken {
        /// The ID.
        id: TokenId,
    },
    /// There is no such role.
    #[error("there is no role {name:?} (kent role ls)")]
    NoSuchRole {
        /// The name.
        name: String,
    },
    /// There is no role of this name that could hold a budget.
    #[error("there is no role {name:?} (kent role ls); the budget of a token needs the token's ID (kent token ls)")]
    NoSuchHolder {
        /// The name.
        name: String,
    },
    /// There is no such role, and the request does not say what the new role allows.
    #[error("there is no role {name} yet: say what it allows, as in `kent role set {name} --allow lease:uuidv7`")]
    NewRole {
        /// The name.
        name: String,
    },
    /// There is no such budget.
    #[error("{holder} has no budget for {resource}; to create one: kent budget set {holder} {resource} TOTAL")]
    NoSuchBudget {
        /// The holder, a token or a role.
        holder: Holder,
        /// The source.
        resource: String,
    },
    /// The token has ended, so it cannot get a new secret.
    #[error("token {id} is {reason}: create another one (kent token create NAME --allow ACTION:RESOURCE)")]
    Ended {
        /// The ID.
        id: TokenId,
        /// Why the token is no longer valid.
        reason: kent_access::Refused,
    },
    /// The maximum number of tokens, roles or budgets already exists.
    #[error("there are {} {what}, which is the maximum: {hint}", grouped(max))]
    TooMany {
        /// The kind of item, such as `tokens`.
        what: &'static str,
        /// The maximum.
        max: usize,
        /// How to get below the maximum.
        hint: &'static str,
    },
    /// The store failed.
    #[error("the change was not stored: {0}")]
    Store(#[from] StoreFailure),
    /// The change was interrupted, and may or may not have been stored.
    #[error("the change was interrupted; list the tokens or roles to see whether it was made")]
    Abandoned,
}

/// The maximum number of tokens, all of which are kept in memory. At the maximum, a new token replaces the oldest one
/// that has ended.
const TOKENS_MAX: usize = 10_000;
/// The maximum number of budgets, all of which are kept in memory.
const BUDGETS_MAX: usize = 10_000;
/// The maximum number of budgets of one holder, so that all can be removed in one commit.
const BUDGETS_EACH_MAX: usize = 20;
/// The maximum number of roles.
const ROLES_MAX: usize = 1_000;
/// The maximum number of permissions, roles or certificates in one token or role.
const LISTED_MAX: usize = 100;
/// The longest validity of a token, in seconds: a hundred years.
const VALID_MAX: u64 = 100 * 366 * 86_400;

impl Access {
    /// Creates a token. Returns its ID and secret, its record, and the version of the store that includes the record.
    ///
    /// # Errors
    ///
    /// [`AccessError`].
    pub async fn create_token(
        &self,
        caller: &Caller,
        new: NewToken,
    ) -> Result<(Presented, Token, Version), AccessError> {
        check_admin(caller)?;
        check_token_name(&new.name).map_err(|bad| Invalid::new("name", bad))?;
        check_count("roles", new.roles.len())?;
        if new.permissions.is_empty() && new.roles.is_empty() {
            let problem = "is empty, and so is roles: a token needs at least one permission or role, such as --allow lease:uuidv7";
            return Err(Invalid::new("permissions", problem).into());
        }
        let rights = self.rights(caller, &new.permissions)?;
        let created = self.auth.unix_ms();
        let expires = expiry(caller, new.valid_seconds, created)?;
        let presented = self.draw(None);
        let token = Token {
            id: presented.id(),
            name: new.name,
            rights,
            roles: new.roles,
            limits: new.limits,
            created,
            expires,
            created_by: caller.name().to_owned(),
            hash: presented.hash(),
            outdated: None,
            refused: None,
        };
        check_size("permissions", &stored::encode_token(&token))?;
        let budgets = self.new_budgets(caller, token.id, &new.budgets)?;
        let version = self.auth.table().change::<AccessError>(|present| {
            for name in &token.roles {
                find_role(present, caller, name)?;
            }
            check_budgets(present, budgets.len())?;
            let mut writes = vec![Write::Token(Box::new(token.clone()))];
            writes.extend(budgets.iter().cloned().map(Write::Budget));
            if present.tokens().len() >= TOKENS_MAX {
                let ended = present.tokens().values().filter(|token| token.refused(created).is_some());
                let oldest = ended.min_by_key(|token| token.created).ok_or(AccessError::TooMany {
                    what: "tokens",
                    max: TOKENS_MAX,
                    hint: "revoke unused ones (kent token ls, kent token revoke ID)",
                })?;
                writes.push(Write::NoToken(oldest.id));
                writes.extend(present.no_budgets_of(&Holder::Token(oldest.id)));
            }
            Ok(writes)
        });
        Ok((presented, token.clone(), version.await?))
    }

    /// Revokes a token. Returns the version that includes the revocation.
    ///
    /// # Errors
    ///
    /// [`AccessError`].
    pub async fn revoke_token(&self, caller: &Caller, id: TokenId) -> Result<Version, AccessError> {
        check_admin(caller)?;
        let change = self.auth.table().change(|present| {
            let token = find_token(present, caller, id)?;
            let refused = Some(kent_access::Refused::Revoked);
            let revoked = Token { refused, outdated: None, ..Token::clone(token) };
            // Revoking a token again writes nothing, but the caller still learns which replicas know of the revocation.
            let writes = if revoked == **token { Vec::new() } else { vec![Write::Token(Box::new(revoked))] };
            // The token's budgets are removed with the token.
            Ok(writes.into_iter().chain(present.no_budgets_of(&Holder::Token(id))).collect())
        });
        change.await
    }

    /// Gives a token a new secret. The old secret stays valid for `grace_seconds`.
    ///
    /// # Errors
    ///
    /// [`AccessError`].
    pub async fn rotate_token(
        &self,
        caller: &Caller,
        id: TokenId,
        grace_seconds: u64,
    ) -> Result<(Presented, Token, Version), AccessError> {
        check_admin(caller)?;
        if grace_seconds > GRACE_SECONDS_MAX {
            let problem = format!("is {grace_seconds}, but must be at most {GRACE_SECONDS_MAX}, a week");
            return Err(Invalid::new("grace_seconds", problem).into());
        }
        let (presented, now) = (self.draw(Some(id)), self.auth.unix_ms());
        let rotate = |present: &Snapshot| {
            let token = find_token(present, caller, id)?;
            if let Some(reason) = token.refused(now) {
                return Err(AccessError::Ended { id, reason });
            }
            let until = now.saturating_add(millis(grace_seconds));
            let outdated = (grace_seconds > 0).then_some(Outdated { hash: token.hash, until });
            Ok(Token { hash: presented.hash(), outdated, ..Token::clone(token) })
        };
        let write = |present: &Snapshot| Ok::<_, AccessError>(vec![Write::Token(Box::new(rotate(present)?))]);
        let change = self.auth.table().change(write);
        let version = change.await?;
        let token = self.auth.table().snapshot().token(id).map(|token| Token::clone(token));
        Ok((presented, token.ok_or(AccessError::NoSuchToken { id })?, version))
    }

    /// Creates a role, or replaces all or parts of an existing one. Returns the new role.
    ///
    /// # Errors
    ///
    /// [`AccessError`].
    pub async fn put_role(
        &self,
        caller: &Caller,
        name: String,
        permissions: &[String],
        certificates: &[String],
        parts: RoleParts,
        limits: Limits,
    ) -> Result<(Role, Version), AccessError> {
        check_admin(caller)?;
        check_role_name(&name).map_err(|bad| Invalid::new("role.name", bad))?;
        check_count("role.certificates", certificates.len())?;
        let parsed = certificates.iter().map(|text| NamePattern::of_certificate(text));
        let certificates = parsed
            .collect::<Result<_, _>>()
            .map_err(|bad: kent_access::BadName| Invalid::new("role.certificates", bad))?;
        let role = Role { rights: self.rights(caller, permissions)?, name, certificates, limits };
        let made = Mutex::new(None);
        let change = self.auth.table().change(|present| {
            let mut role = role.clone();
            // Replacing a role can take permissions from its holders, so the caller must also be allowed to give the
            // role's current permissions.
            match present.role(&role.name) {
                Some(replaced) => {
                    check_covers(caller, &replaced.rights)?;
                    if !parts.permissions {
                        role.rights.clone_from(&replaced.rights);
                    }
                    if !parts.certificates {
                        role.certificates.clone_from(&replaced.certificates);
                    }
                    if !parts.limits {
                        role.limits = replaced.limits;
                    }
                }
                None if !parts.permissions => return Err(AccessError::NewRole { name: role.name }),
                None if present.roles().len() >= ROLES_MAX => {
                    let hint = "delete unused ones (kent role ls, kent role delete NAME)";
                    return Err(AccessError::TooMany { what: "roles", max: ROLES_MAX, hint });
                }
                None => {}
            }
            check_size("role", &stored::encode_role(&role))?;
            *made.lock().unwrap_or_else(PoisonError::into_inner) = Some(role.clone());
            Ok(vec![Write::Role(role)])
        });
        let version = change.await?;
        // Each attempt sets `made`. The last one was committed, so `made` now holds the stored role.
        let made = made.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok((made.unwrap_or(role), version))
    }

    /// Deletes a role.
    ///
    /// # Errors
    ///
    /// [`AccessError`].
    pub async fn delete_role(&self, caller: &Caller, name: &str) -> Result<Version, AccessError> {
        check_admin(caller)?;
        let change = self.auth.table().change(|present| {
            find_role(present, caller, name)?;
            let mut writes = vec![Write::NoRole(name.to_owned())];
            // The role's budgets are removed with the role.
            writes.extend(present.no_budgets_of(&Holder::Role(name.to_owned())));
            Ok(writes)
        });
        change.await
    }

    /// Returns the tokens that the caller may manage, ordered by ID, starting after the ID `after`.
    pub fn tokens(&self, caller: &Caller, after: Option<TokenId>, most: usize) -> Result<Vec<Arc<Token>>, Denied> {
        check_admin(caller)?;
        let snapshot = self.auth.table().snapshot();
        let after = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let tokens = snapshot.tokens().range((after, std::ops::Bound::Unbounded)).map(|(_, token)| token);
        Ok(tokens.filter(|token| covers_token(&snapshot, caller, token)).take(most).cloned().collect())
    }

    /// Returns the roles that the caller may manage, ordered by name.
    pub fn roles(&self, caller: &Caller) -> Result<Vec<Arc<Role>>, Denied> {
        check_admin(caller)?;
        let snapshot = self.auth.table().snapshot();
        let roles = snapshot.roles().filter(|role| check_covers(caller, &role.rights).is_ok());
        Ok(roles.cloned().collect())
    }

    /// Formats a right as a permission, with the current name of its space or region.
    pub fn describe(&self, right: &Right) -> String {
        let present = || {
            let (key, number) = match right.bound() {
                Bound::Nothing => return None,
                Bound::Space(key) => (key, None),
                Bound::Region(place) => (&place.space, Some(kent_regions::RegionNumber(place.number))),
            };
            let space = self.directory.by_key(key)?;
            let region = match number {
                None => None,
                Some(number) => Some(space.read(|table| table.get(number).map(|region| region.name.clone()))?),
            };
            Some(right.permission().with_names(&space.name(), region.as_deref()).to_string())
        };
        present().unwrap_or_else(|| right.to_string())
    }

    /// Formats the resource of a right, with the current name of its space or region.
    pub fn describe_resource(&self, right: &Right) -> String {
        let described = self.describe(right);
        described.split_once(':').map_or(described.clone(), |(_, resource)| resource.to_owned())
    }

    /// Parses permissions, binds their names to the current spaces and regions, and checks that the caller may give
    /// them.
    fn rights(&self, caller: &Caller, texts: &[String]) -> Result<Vec<Right>, AccessError> {
        check_count("permissions", texts.len())?;
        let right = |text: &String| {
            let permission: Permission = text.parse().map_err(|bad| Invalid::new("permissions", bad))?;
            let (right, missing) = self.bind(permission).map_err(|bad| Invalid::new("permissions", bad))?;
            // Check the caller's rights before reporting a missing name, so that a caller learns nothing about regions
            // that it may not manage.
            check_covers(caller, std::slice::from_ref(&right))?;
            match missing {
                None => Ok(right),
                Some(problem) => Err(Invalid::new("permissions", problem).into()),
            }
        };
        texts.iter().map(right).collect()
    }

    /// Binds a permission. If its space or region does not exist, returns a right that allows nothing, and a
    /// description of the problem.
    fn bind(&self, permission: Permission) -> Result<(Right, Option<String>), kent_access::Unbound> {
        let mut missing = None;
        let bound = match permission.needs() {
            Needs::Nothing => Bound::Nothing,
            Needs::Space(space) => Bound::Space(match self.directory.find(space) {
                Ok(found) => found.key().to_owned(),
                Err(none) => {
                    // An outermost space is bound by its name, so it may be created after the permission.
                    missing = space.contains('/').then(|| {
                        format!(
                            "{permission:?} names a space that does not exist: {none}",
                            permission = permission.to_string()
                        )
                    });
                    space.to_owned()
                }
            }),
            Needs::Region { space, name } => {
                let found = self.directory.find(space).ok().and_then(|space| {
                    let place = |region: &kent_regions::Region| Place {
                        space: space.key().to_owned(),
                        number: region.number.0,
                        first_name: region.first_name().to_owned(),
                    };
                    space.read(|table| table.named(name).ok().map(place))
                });
                Bound::Region(found.unwrap_or_else(|| {
                    missing = Some(format!(
                        "{:?} names a region that does not exist: create it first, or use a pattern such as {}:region:{space}/{name}*",
                        permission.to_string(),
                        permission.action()
                    ));
                    let key = self.directory.find(space).map_or_else(|_| space.to_owned(), |space| space.key().to_owned());
                    // No region has the number `u64::MAX`.
                    Place { space: key, number: u64::MAX, first_name: name.to_owned() }
                }))
            }
        };
        Ok((Right::new(permission, bound)?, missing))
    }

    fn draw_budget(&self) -> BudgetId {
        let mut random = [0; 8];
        self.entropy.fill(&mut random);
        BudgetId::new(random)
    }

    /// Generates a secret, and an ID if none is given.
    fn draw(&self, id: Option<TokenId>) -> Presented {
        let (mut random, mut secret) = ([0; 6], [0; 32]);
        self.entropy.fill(&mut random);
        self.entropy.fill(&mut secret);
        Presented::new(id.unwrap_or(TokenId::new(random)), secret)
    }
}

/// Fails if the caller has no `admin` permission at all.
fn check_admin(caller: &Caller) -> Result<(), Denied> {
    let has_some = |right: &Right| right.permission().action() == Action::Admin;
    match caller.principal().is_none_or(|principal| principal.rights.rights().iter().any(has_some)) {
        true => Ok(()),
        false => Err(caller.lacks(format!("{}:*", Action::Admin))),
    }
}

/// Fails if the caller may not give these rights to others.
fn check_covers(caller: &Caller, rights: &[Right]) -> Result<(), Denied> {
    let Some(principal) = caller.principal() else { return Ok(()) };
    match rights.iter().find(|right| !principal.rights.covers(right)) {
        None => Ok(()),
        Some(right) => Err(caller.lacks(format!("{}:{}", Action::Admin, right.permission().resource()))),
    }
}

/// Whether the caller may manage a token: it must be allowed to give others every right of the token.
fn covers_token(present: &Snapshot, caller: &Caller, token: &Token) -> bool {
    let mut roles = token.roles.iter().filter_map(|name| present.role(name));
    check_covers(caller, &token.rights).is_ok() && roles.all(|role| check_covers(caller, &role.rights).is_ok())
}

/// Finds a token that the caller may manage. Only a caller that may manage all tokens learns that a token does not
/// exist.
fn find_token<'p>(present: &'p Snapshot, caller: &Caller, id: TokenId) -> Result<&'p Arc<Token>, AccessError> {
    match present.token(id).filter(|token| covers_token(present, caller, token)) {
        Some(token) => Ok(token),
        None => Err(caller.check_daemon(Action::Admin).map_or_else(Into::into, |()| AccessError::NoSuchToken { id })),
    }
}

/// Finds a role that the caller may manage, like [`find_token`].
fn find_role<'p>(present: &'p Snapshot, caller: &Caller, name: &str) -> Result<&'p Arc<Role>, AccessError> {
    match present.role(name).filter(|role| check_covers(caller, &role.rights).is_ok()) {
        Some(role) => Ok(role),
        None => {
            let missing = || AccessError::NoSuchRole { name: name.chars().take(SHOWN_MAX).collect() };
            Err(caller.check_daemon(Action::Admin).map_or_else(Into::into, |()| missing()))
        }
    }
}

/// The maximum number of characters that an error quotes from a name.
const SHOWN_MAX: usize = 80;

/// Fails if `more` new budgets would exceed the maximum.
fn check_budgets(present: &Snapshot, more: usize) -> Result<(), AccessError> {
    match present.budgets().len() + more <= BUDGETS_MAX {
        true => Ok(()),
        false => {
            let hint = "remove unused ones (kent budget show, kent budget rm HOLDER RESOURCE)";
            Err(AccessError::TooMany { what: "budgets", max: BUDGETS_MAX, hint })
        }
    }
}

/// Returns the time at which a token ends. A token never ends after its creator's credential.
fn expiry(caller: &Caller, valid_seconds: u64, now: i64) -> Result<Option<i64>, Invalid> {
    if valid_seconds > VALID_MAX {
        let problem = format!("is {valid_seconds}, but must be at most {VALID_MAX}, a hundred years");
        return Err(Invalid::new("valid_seconds", problem));
    }
    let makers = caller.principal().and_then(|principal| principal.expires);
    let asked = (valid_seconds > 0).then(|| now.saturating_add(millis(valid_seconds)));
    match (asked, makers) {
        (Some(asked), Some(makers)) if asked > makers => {
            let left = makers.saturating_sub(now) / 1000;
            let problem = format!(
                "is {valid_seconds} s, but your own credential ends in {left} s: a token cannot outlive the credential that creates it"
            );
            Err(Invalid::new("valid_seconds", problem))
        }
        (asked, makers) => Ok(asked.or(makers)),
    }
}

fn millis(seconds: u64) -> i64 {
    i64::try_from(seconds.saturating_mul(1000)).unwrap_or(i64::MAX)
}

fn check_count(field: &'static str, count: usize) -> Result<(), Invalid> {
    match count <= LISTED_MAX {
        true => Ok(()),
        false => Err(Invalid::new(field, format!("has {count} entries, but the maximum is {LISTED_MAX}"))),
    }
}

/// Fails if a record is too large for the store.
fn check_size(field: &'static str, record: &[u8]) -> Result<(), Invalid> {
    match record.len() < VALUE_BYTES_MAX - 1024 {
        true => Ok(()),
        false => {
            Err(Invalid::new(field, format!("takes {} bytes together, but the maximum is about 15,000", record.len())))
        }
    }
}
