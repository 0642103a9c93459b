//! The prefix table of William Kent, *Variable-Prefix Identifiers (Adjustable Oid's)*, HPL-92-50, 1992.
//!
//! A *space* of n-bit identifiers is divided into *regions*, each an aligned interval named by its prefix. A region can
//! be expanded, split and subdivided while every identifier issued from it stays valid.
//!
//! This crate is pure: it reads no clock, has no random source, does no I/O and uses no async. An edit is a function
//! `(table, edit) -> plan | refusal`; applying the plan is another function. Counters (how many suffixes are issued)
//! are part of a table but change without a new revision.
#![no_std]

extern crate alloc;

mod attributes;
mod by_number;
mod change;
mod chart;
mod classify;
mod compose;
mod count;
mod edit;
mod floor;
mod forest;
mod free;
mod granting;
mod index;
mod indexing;
mod join;
mod limits;
mod map;
mod name;
mod names;
mod nearest;
mod ordered;
mod pace;
mod plan;
mod prefix;
mod rare;
mod refusal;
mod region;
mod repeat;
mod restore;
mod revision;
mod rewind;
mod table;
mod tally;
mod undo;

pub use attributes::{AutoExpand, ChunkPolicy, Order, Patch, Policy, PolicyPatch, Texts};
pub use by_number::ByNumber;
pub use change::Change;
pub use chart::Chart;
pub use classify::{Classification, Status};
pub use compose::NotComposed;
pub use count::Count;
pub use edit::{Donate, Edit, Imported, NewRegion, Place, Start, Zone};
pub use floor::NoFloor;
pub use forest::{Forest, TableKey};
pub use granting::{NotGranting, Seal};
pub use index::Index;
pub use indexing::Indexing;
pub use join::{InTurn, Join};
pub use limits::{BITS_MAX, LABEL_BYTES_MAX, TEXT_BYTES_MAX};
pub use map::{CELLS_MAX, Cell, Content, Map, Mapping};
pub use name::Name;
pub use pace::Pace;
pub use plan::{Choice, CounterMove, Plan};
pub use prefix::{BadPrefix, Prefix};
pub use rare::{Rare, Usual};
pub use refusal::{Donor, NoFreePrefix, Refusal};
pub use region::{Extras, FormerPrefix, Kind, Parent, Past, Region, RegionNumber};
pub use restore::Damage;
pub use revision::Revision;
pub use rewind::Rewind;
pub use table::{BadWidth, Table};
pub use undo::NotUndone;
