//! The constants of a slot: small numbers that are not just numbers.

use core::fmt;

use thiserror::Error;

/// A value that does not fit its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{what} is {value}, but at most {max}")]
pub struct OutOfRange {
    /// What was given.
    pub what: &'static str,
    /// Its value.
    pub value: u64,
    /// The largest that fits.
    pub max: u64,
}

const fn check(what: &'static str, value: u64, max: u64) -> Result<u64, OutOfRange> {
    if value > max { Err(OutOfRange { what, value, max }) } else { Ok(value) }
}

/// The number of a slot, 0 to 63.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u8);

impl Slot {
    /// Bits of a slot's number.
    pub const BITS: u32 = 6;
    /// How many slots there are.
    pub const COUNT: u8 = 1 << Self::BITS;

    /// The slot with this number.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] above 63.
    pub fn new(number: u8) -> Result<Self, OutOfRange> {
        check("the slot", number.into(), u64::from(Self::COUNT) - 1).map(|_| Self(number))
    }

    /// All slots, lowest first.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).map(Self)
    }

    /// The number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// How often a slot has changed hands: the fencing token of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotEpoch(u64);

impl SlotEpoch {
    /// The epoch with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The epoch after the next change of hands.
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1)) // OK because 2^64 changes of hands do not happen
    }
}

/// The 48-bit node field of UUIDv1 and v6.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Node(u64);

impl Node {
    /// The bit of the first octet that says "no IEEE address" (RFC 9562 section 6.10).
    const MULTICAST: u64 = 1 << 40;

    /// The node with these 48 bits.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] above 48 bits.
    pub fn new(bits: u64) -> Result<Self, OutOfRange> {
        check("the node", bits, (1 << 48) - 1).map(Self)
    }

    /// A slot's node: random but for the multicast bit, which is set, and the last six bits, which are the slot's number.
    pub const fn for_slot(random: u64, slot: Slot) -> Self {
        let random = random & ((1 << 48) - 1) & !(Slot::COUNT as u64 - 1);
        Self(random | Self::MULTICAST | slot.0 as u64)
    }

    /// The 48 bits.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:012x}", self.0)
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({self})")
    }
}

/// The 14-bit clock sequence of UUIDv1 and v6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClockSeq(u16);

impl ClockSeq {
    const MASK: u16 = (1 << 14) - 1;

    /// The clock sequence with these 14 bits.
    ///
    /// # Errors
    ///
    /// [`OutOfRange`] above 14 bits.
    pub fn new(bits: u16) -> Result<Self, OutOfRange> {
        check("the clock sequence", bits.into(), Self::MASK.into()).map(|_| Self(bits))
    }

    /// The low 14 of these bits.
    pub const fn from_random(random: u64) -> Self {
        Self(random as u16 & Self::MASK) // OK because the rest is cut off on purpose
    }

    /// The bits.
    pub const fn get(self) -> u16 {
        self.0
    }

    /// The next clock sequence, modulo 2^14.
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1) & Self::MASK)
    }
}

/// The key of the keyed permutation: 16 octets that all daemons of a store share.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ClusterKey([u8; 16]);

impl ClusterKey {
    /// The key with these octets.
    pub const fn new(octets: [u8; 16]) -> Self {
        Self(octets)
    }

    /// The octets.
    pub const fn octets(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterKey(..)")
    }
}
