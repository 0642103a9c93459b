//! Rights: permissions bound to the spaces and regions that they named when they were given.

use alloc::string::{String, ToString};
use core::fmt;

use thiserror::Error;

use crate::permission::{Needs, Permission};

/// A permission bound to the space or region that it named when it was given. Numbers of regions and keys of spaces
/// never change, so a rename, or a new region under an old name, does not change a right.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Right {
    permission: Permission,
    bound: Bound,
}

/// The space or region that a permission named.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Bound {
    /// The permission names no space.
    Nothing,
    /// The key of the space.
    Space(String),
    /// The region.
    Region(Place),
}

/// A region, regardless of its current name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The key of the space.
    pub space: String,
    /// The number of the region.
    pub number: u64,
    /// The name with which the region was created.
    pub first_name: String,
}

/// The error for a permission that is not bound to the space or region that it names.
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

    /// The permission, as the caller wrote it.
    pub const fn permission(&self) -> &Permission {
        &self.permission
    }

    /// The space or region to which the permission is bound.
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
