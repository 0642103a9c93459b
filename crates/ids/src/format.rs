//! Formats that can be minted, and the registry of them.

use core::{
    fmt,
    hash::{Hash, Hasher},
};

use crate::{
    block::SlotConstants,
    formats::{uuidv6::UuidV6, uuidv7::UuidV7, xid::Xid},
    id::Id,
    line::{Line, Position},
};

/// All formats that can be minted. One more format is one more file in `formats`, and one more line here.
static FORMATS: [&dyn Mint; 3] = [&UuidV6, &UuidV7, &Xid];

/// How a format turns positions into identifiers: a pure function of the position, the slot and random bits.
pub(crate) trait Mint: Sync {
    /// The name by which the format is asked for.
    fn token(&self) -> &'static str;

    /// The name of the line of positions. Formats that are faces of one line share it.
    fn sequence_key(&self) -> &'static str {
        self.token()
    }

    /// The line of positions.
    fn line(&self) -> &'static Line;

    /// Octets of one identifier.
    fn width_bytes(&self) -> usize;

    /// The identifier with this value.
    fn id(&self, value: u128) -> Id;

    /// Whether identifiers have a random tail.
    fn has_tail(&self) -> bool;

    /// Writes the values of the identifiers at `first` and the positions after it. `random` holds 64 random bits for each,
    /// or nothing if the format has no random tail.
    fn fill(&self, constants: &SlotConstants, first: Position, random: &[u64], values: &mut [u128]);
}

/// A format that can be minted.
#[derive(Clone, Copy)]
pub struct Format(&'static dyn Mint);

impl Format {
    /// The format of this name, such as `uuidv7`.
    pub fn by_token(token: &str) -> Option<Self> {
        Self::all().find(|format| format.token() == token)
    }

    /// All formats.
    pub fn all() -> impl Iterator<Item = Self> {
        FORMATS.iter().map(|mint| Self(*mint))
    }

    /// The format's name.
    pub fn token(self) -> &'static str {
        self.0.token()
    }

    /// The name of the sequence that the format draws from. Formats that are faces of one line share it.
    pub fn sequence_key(self) -> &'static str {
        self.0.sequence_key()
    }

    /// The line of positions.
    pub fn line(self) -> &'static Line {
        self.0.line()
    }

    /// Octets of one identifier.
    pub fn width_bytes(self) -> usize {
        self.0.width_bytes()
    }

    pub(crate) fn mint(self) -> &'static dyn Mint {
        self.0
    }
}

impl PartialEq for Format {
    fn eq(&self, other: &Self) -> bool {
        self.token() == other.token()
    }
}

impl Eq for Format {}

impl Hash for Format {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.token().hash(state);
    }
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Format({})", self.token())
    }
}
