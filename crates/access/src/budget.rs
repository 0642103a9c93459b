//! Budgets: how many identifiers the holders of a token or a role may take from one source in total.
//!
//! A daemon reserves a [`Share`] of a budget, and grants from the share. The record [`Spent`] counts the whole share as
//! used until the daemon returns the part that it has not granted. So `used` is never less than what was granted.

mod share;
mod spent;

use alloc::{
    borrow::ToOwned,
    format,
    string::{String, ToString},
};
use core::{fmt, str::FromStr};

use data_encoding::HEXLOWER;
use kent_ids::Series;
use thiserror::Error;

pub use self::{
    share::{Share, Sizing},
    spent::{Lately, Mark, Reservation, Short, Spent},
};
use crate::{
    action::Action,
    permission::{FULL_RAND, Permission, Resource},
    right::{Bound, Right},
    rights::Target,
    role::check_role_name,
    token::TokenId,
};

/// The random ID of a budget. A budget that replaces a removed one has another ID, so a daemon never returns a share of
/// the old budget to the new one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BudgetId([u8; ID_BYTES]);

const ID_BYTES: usize = 8;

/// The holder of a budget.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holder {
    /// The holder of one token.
    Token(TokenId),
    /// All callers with the role, together.
    Role(String),
}

/// The number of identifiers that a holder may take from one source in total.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    id: BudgetId,
    holder: Holder,
    right: Right,
    total: u64,
}

/// A string that is neither the ID of a token nor the name of a role.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is not a holder: write token:ID or role:NAME, such as role:orders")]
pub struct BadHolder(String);

/// A resource that is not a single source.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{0:?} is not one source of identifiers: write a format such as uuidv7, serial:SYMBOL or region:SPACE/NAME, such as \
     region:default/orders"
)]
pub struct NotOneSource(pub String);

/// Errors quote at most this many characters of an input.
const SHOWN_MAX: usize = 80;

impl Budget {
    /// Makes a budget for the resource of a right. The action of the right is ignored.
    ///
    /// # Errors
    ///
    /// [`NotOneSource`] if the resource is a pattern or a space.
    pub fn new(id: BudgetId, holder: Holder, right: Right, total: u64) -> Result<Self, NotOneSource> {
        match right.permission().resource() {
            Resource::Format(_) | Resource::Serial(_) | Resource::Layout(_) | Resource::Region { .. } => {
                Ok(Self { id, holder, right, total })
            }
            Resource::Everything
            | Resource::Formats(_)
            | Resource::Serials(_)
            | Resource::Layouts(_)
            | Resource::Space(_)
            | Resource::Spaces(_)
            | Resource::Regions { .. }
            | Resource::AllRegions => Err(NotOneSource(right.permission().resource().to_string())),
        }
    }

    /// Parses a resource into a permission that [`Budget::new`] accepts.
    ///
    /// # Errors
    ///
    /// [`NotOneSource`].
    pub fn permission(resource: &str) -> Result<Permission, NotOneSource> {
        let bad = || NotOneSource(resource.chars().take(SHOWN_MAX).collect());
        let permission: Permission = format!("{}:{resource}", Action::Lease).parse().map_err(|_| bad())?;
        match permission.resource() {
            Resource::Format(_) | Resource::Serial(_) | Resource::Layout(_) | Resource::Region { .. } => Ok(permission),
            _ => Err(bad()),
        }
    }

    /// The ID of the budget.
    pub const fn id(&self) -> BudgetId {
        self.id
    }

    /// Who takes from the budget.
    pub const fn holder(&self) -> &Holder {
        &self.holder
    }

    /// A right on the budget's source. The action of the right is ignored.
    pub const fn right(&self) -> &Right {
        &self.right
    }

    /// The number of identifiers that the budget allows.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// The same budget with another total.
    pub fn with_total(&self, total: u64) -> Self {
        Self { total, ..self.clone() }
    }

    /// Whether the budget is for the source of this right.
    pub fn is_on(&self, right: &Right) -> bool {
        match (self.right.bound(), right.bound()) {
            (Bound::Region(one), Bound::Region(other)) => (&one.space, one.number) == (&other.space, other.number),
            (Bound::Nothing, Bound::Nothing) => self.right.permission().resource() == right.permission().resource(),
            _ => false,
        }
    }

    /// Whether identifiers of this target count toward the budget.
    pub fn includes(&self, target: Target<'_>) -> bool {
        match (self.right.permission().resource(), self.right.bound(), target) {
            (Resource::Format(token), _, Target::Format(format)) => *token == format.token(),
            (Resource::Format(token), _, Target::Series(Series::FullRand)) => *token == FULL_RAND,
            (Resource::Serial(series), _, Target::Series(taken)) => series == taken,
            (Resource::Layout(name), _, Target::Layout(taken)) => name == taken,
            (_, Bound::Region(place), Target::Region { space, number: Some(number), .. }) => {
                place.number == number && place.space == space
            }
            _ => false,
        }
    }
}

impl BudgetId {
    /// Makes an ID from random bits.
    pub const fn new(random: [u8; ID_BYTES]) -> Self {
        Self(random)
    }
}

impl fmt::Display for BudgetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for BudgetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BudgetId({self})")
    }
}

impl FromStr for BudgetId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let bytes = HEXLOWER.decode(text.as_bytes()).map_err(drop)?;
        bytes.try_into().map(Self).map_err(drop)
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token(id) => write!(f, "token:{id}"),
            Self::Role(name) => write!(f, "role:{name}"),
        }
    }
}

impl FromStr for Holder {
    type Err = BadHolder;

    fn from_str(text: &str) -> Result<Self, BadHolder> {
        let bad = || BadHolder(text.chars().take(SHOWN_MAX).collect());
        match text.split_once(':').ok_or_else(bad)? {
            ("token", id) => id.parse().map(Self::Token).map_err(|_| bad()),
            ("role", name) => check_role_name(name).map(|()| Self::Role(name.to_owned())).map_err(|_| bad()),
            _ => Err(bad()),
        }
    }
}

#[cfg(test)]
mod tests {
    use kent_ids::Format;

    use super::*;
    use crate::right::Place;

    fn budget(resource: &str, bound: Bound) -> Budget {
        let right = Right::new(Budget::permission(resource).expect("one source"), bound).expect("bound");
        Budget::new(BudgetId::new([1; 8]), Holder::Role("shop".to_owned()), right, 10).expect("one source")
    }

    fn place(number: u64) -> Bound {
        Bound::Region(Place { space: "default".to_owned(), number, first_name: "orders".to_owned() })
    }

    #[test]
    fn ok_a_budget_includes_its_own_source_and_no_other() {
        let (gbp, eur) = ("serial:GBP".parse().expect("a series"), "serial:EUR".parse().expect("a series"));
        let region = |space, number| Target::Region { space, number, first_name: "orders" };
        let targets = [
            Target::Format(Format::by_token("uuidv7").expect("a format")),
            Target::Series(&Series::FullRand),
            Target::Series(&gbp),
            region("default", Some(7)),
            Target::Format(Format::by_token("uuidv6").expect("a format")),
            Target::Series(&eur),
            region("default", Some(8)),
            region("shop", Some(7)),
            region("default", None),
            Target::Daemon,
            Target::Table { space: "default" },
        ];
        let budgets = [
            budget("uuidv7", Bound::Nothing),
            budget(FULL_RAND, Bound::Nothing),
            budget("serial:GBP", Bound::Nothing),
            budget("region:default/orders", place(7)),
        ];
        for (number, budget) in budgets.iter().enumerate() {
            for (at, target) in targets.into_iter().enumerate() {
                assert_eq!(budget.includes(target), at == number, "{budget:?} {target:?}");
            }
            for (at, other) in budgets.iter().enumerate() {
                assert_eq!(budget.is_on(other.right()), at == number);
            }
        }
        assert!(!budgets[3].is_on(budget("region:default/orders", place(8)).right()), "another region with this name");
        assert!(budgets[3].is_on(budget("region:default/renamed", place(7)).right()));
    }

    #[test]
    fn err_a_budget_is_on_one_source() {
        for bad in ["*", "uuid*", "serial:*", "region:*", "space:default", "region:default/team-*", "orders", ""] {
            assert_eq!(Budget::permission(bad), Err(NotOneSource(bad.to_owned())), "{bad}");
        }
        let wide = Right::new("lease:*".parse().expect("a permission"), Bound::Nothing).expect("bound");
        assert!(Budget::new(BudgetId::new([1; 8]), Holder::Role("shop".to_owned()), wide, 1).is_err());
    }

    #[test]
    fn ok_holders_and_ids_round_trip() {
        for text in ["token:0102030405ff", "role:shop", "role:0102030405ff"] {
            assert_eq!(text.parse::<Holder>().expect(text).to_string(), text);
        }
        for bad in ["", "shop", "token:", "token:0102", "role:", "role:Shop", "certificate:x"] {
            assert!(bad.parse::<Holder>().is_err(), "{bad}");
        }
        let id = BudgetId::new([0xab; 8]);
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!("abab".parse::<BudgetId>().is_err());
    }
}
