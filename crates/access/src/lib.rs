//! Who may do what, and how fast: permissions, limits, roles and tokens.
//!
//! This crate only makes decisions: it reads no clock, draws no random bits and does no I/O. The caller supplies the
//! time and the random bits of a token, and resolves names: a right on a region is bound to the region's number, which
//! no rename changes.
//!
//! - [`Permission`] is an action on a resource, such as `allocate:region:default/orders`.
//! - [`Right`] is a permission bound to the space or region that it named when it was given.
//! - [`Rights`] is a set of rights, compiled for decisions.
//! - [`Token`] and [`Role`] hold rights and [`Limits`]; [`Presented`] is the secret that a caller sends.
//! - [`Bucket`] decides whether a caller is within a rate limit.
//! - [`Budget`] limits how many identifiers its holder takes from one source in total; [`Spent`] counts the use.
#![no_std]

extern crate alloc;

mod action;
mod bucket;
mod budget;
mod limits;
mod permission;
mod right;
mod rights;
mod role;
mod token;

pub use action::Action;
pub use bucket::{Bucket, Charge, Rate};
pub use budget::{
    BadHolder, Budget, BudgetId, Holder, Lately, Mark, NotOneSource, Reservation, Share, Short, Sizing, Spent,
};
pub use limits::{BadLimit, LIMIT_MAX, LimitKind, Limits};
pub use permission::{BadPermission, Needs, Permission, Resource};
pub use right::{Bound, Place, Right, Unbound};
pub use rights::{Rights, Target};
pub use role::{BadName, NamePattern, Role, check_role_name, check_token_name};
pub use token::{BadId, GRACE_SECONDS_MAX, Hash, Malformed, Outdated, Presented, Refused, Token, TokenId};
