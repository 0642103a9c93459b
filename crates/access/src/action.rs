//! The actions that a permission allows.

use core::{fmt, str::FromStr};

/// An action that a permission allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// Get identifiers, packed or as text.
    Allocate,
    /// Get leases, which contain the keys of scrambled orders.
    Lease,
    /// Decode identifiers.
    Inspect,
    /// Read tables.
    Read,
    /// Edit tables.
    Edit,
    /// See the daemon's state, and operate the daemon: series, the clock, backups.
    Operate,
    /// Take all of these actions, and create tokens and roles that allow them.
    Admin,
}

impl Action {
    /// All actions, in the order in which messages list them.
    pub const ALL: [Self; 7] =
        [Self::Allocate, Self::Lease, Self::Inspect, Self::Read, Self::Edit, Self::Operate, Self::Admin];

    /// The name in a permission.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allocate => "allocate",
            Self::Lease => "lease",
            Self::Inspect => "inspect",
            Self::Read => "read",
            Self::Edit => "edit",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Action {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|action| action.as_str() == text).ok_or(())
    }
}
