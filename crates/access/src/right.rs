//! Rights: permissions that are bound to what their names stood for when they were given.

use alloc::string::{String, ToString};
use core::fmt;

use thiserror::Error;

use crate::permission::{Needs, Permission};

/// A permission, and what the names in it stood for when it was given. A region keeps its number and a space its key permanently, so a
/// rename, or a new region under an old name, moves no right.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Right {
    permission: Permission,
    bound: Bound,
}

/// What the names in a permission stood for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Bound {
    /// The permission names no space.
    Nothing,
    /// The key of the space.
    Space(String),
    /// The region.
    Region(Place),
}

/// A region, whatever its name is now.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The key of the space.
    pub space: String,
    /// The number of the region.
    pub number: u64,
    /// The name with which the region was created.
    pub first_name: String,
}

/// A permission that is bound to nothing, or to something of another kind.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the permission {permission} is not bound to what it names")]
pub struct Unbound {
    /// The permission.
    pub permission: String,
}

impl Right {
    /// Binds a permission.
    ///
    /// # Errors
    ///
    /// [`Unbound`] if `bound` is not what [`Permission::needs`] asks for.
    pub fn new(permission: Permission, bound: Bound) -> Result<Self, Unbound> {
        match (permission.needs(), &bound) {
            (Needs::Nothing, Bound::Nothing)
            | (Needs::Space(_), Bound::Space(_))
            | (Needs::Region { .. }, Bound::Region(_)) => Ok(Self { permission, bound }),
            _ => Err(Unbound { permission: permission.to_string() }),
        }
    }

    /// The permission, as it was written.
    pub const fn permission(&self) -> &Permission {
        &self.permission
    }

    /// What the names in it stood for.
    pub const fn bound(&self) -> &Bound {
        &self.bound
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.permission.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn err_a_permission_is_bound_to_what_it_names() {
        let place = || Place { space: "default".to_string(), number: 1, first_name: "orders".to_string() };
        let bounds = [Bound::Nothing, Bound::Space("default".to_string()), Bound::Region(place())];
        for (text, fits) in [
            ("admin:*", 0),
            ("read:region:*", 0),
            ("allocate:uuidv7", 0),
            ("edit:space:default", 1),
            ("edit:region:default/*", 1),
            ("edit:region:default/orders", 2),
        ] {
            let permission: Permission = text.parse().expect("a permission");
            for (index, bound) in bounds.iter().enumerate() {
                assert_eq!(Right::new(permission.clone(), bound.clone()).is_ok(), index == fits, "{text} {bound:?}");
            }
        }
    }
}
