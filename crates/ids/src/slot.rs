//! The constants of a slot: its number, epoch, node field and clock sequence, and the cluster's key.
//!
//! Each number has a fixed width and a checked constructor, so no code can silently exceed the width.

use core::fmt;

use siphasher::sip::SipHasher24;

use crate::error::OutOfRange;

/// The constants of every block of one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlotConstants {
    /// The slot's number.
    pub slot: Slot,
    /// The number of times that the slot has changed owner: the fencing token.
    pub epoch: SlotEpoch,
    /// The node field of UUID versions 1 and 6.
    pub node: Node,
    /// The clock sequence of UUID versions 1 and 6.
    pub clock_seq: ClockSeq,
    /// The key of the permutations, for formats that use it.
    pub key: ClusterKey,
}

/// The number of a slot: 0 to 63.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u8);

impl Slot {
    /// The number of slots.
    pub const COUNT: u8 = 1 << Self::BITS;
    /// The number of bits of a slot in an identifier.
    pub const BITS: u32 = 6;

    /// Creates the slot with this number.
    ///
    /// # Errors
    ///
    /// Fails with [`OutOfRange`] for a number above 63.
    pub const fn new(number: u8) -> Result<Self, OutOfRange> {
        match OutOfRange::check("the slot", number as u128, Self::BITS) {
            Ok(()) => Ok(Self(number)),
            Err(error) => Err(error),
        }
    }

    /// Returns all slots, in order.
    pub fn all() -> impl ExactSizeIterator<Item = Self> + DoubleEndedIterator {
        (0..Self::COUNT).map(Self)
    }

    /// Returns the slot's number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of times that a slot has changed owner: the fencing token in its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotEpoch(u64);

impl SlotEpoch {
    /// Creates the epoch with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the epoch's number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns the epoch of the next owner.
    #[must_use]
    pub const fn next(self) -> Self {
        // OK because a slot never has 2^64 owners. If it had, a saturated epoch would reject new blocks, but a wrapped
        // epoch would admit outdated blocks.
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for SlotEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The 48-bit node field of UUID versions 1, 2 and 6; written as 12 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(u64);

impl Node {
    /// The width in bits.
    pub const BITS: u32 = 48;
    /// The least significant bit of the first byte (RFC 9562, section 6.10). It is not set in the IEEE address of a
    /// network card.
    const MULTICAST: u64 = 0x01 << 40;
    /// The second least significant bit of the first byte. It marks a locally administered address.
    const LOCAL: u64 = 0x02 << 40;

    /// Creates the node field with this value.
    ///
    /// # Errors
    ///
    /// Fails with [`OutOfRange`] for more than 48 bits.
    pub const fn new(value: u64) -> Result<Self, OutOfRange> {
        match OutOfRange::check("the node", value as u128, Self::BITS) {
            Ok(()) => Ok(Self(value)),
            Err(error) => Err(error),
        }
    }

    /// Creates the node field of a new slot from the low 48 bits of `random`. The last six bits are the slot's number,
    /// so no two slots of a cluster share a node. The multicast bit is set, so no node is a network card's address.
    pub const fn for_slot(random: u64, slot: Slot) -> Self {
        let slot_mask = (1 << Slot::BITS) - 1;
        Self(random & ((1 << Self::BITS) - 1) & !slot_mask | slot.0 as u64 | Self::MULTICAST)
    }

    /// Creates the node field from the low 48 bits of `value`.
    pub(crate) const fn truncate(value: u64) -> Self {
        Self(value & ((1 << Self::BITS) - 1))
    }

    /// Returns the slot's number. The result is meaningful only for the node of a slot: see
    /// [`for_slot`](Self::for_slot).
    pub(crate) const fn slot(self) -> u8 {
        self.0 as u8 & (Slot::COUNT - 1) // OK because the mask keeps 6 bits
    }

    /// Returns the value, below 2^48.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns whether the multicast bit is set. It is not set in a network card's address.
    pub const fn is_multicast(self) -> bool {
        self.0 & Self::MULTICAST != 0
    }

    /// Returns whether the bit of locally administered addresses is set.
    pub const fn is_local(self) -> bool {
        self.0 & Self::LOCAL != 0
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

/// The 14-bit clock sequence of UUID versions 1 and 6: it changes when the clock goes back or state is lost (DCE 1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClockSeq(u16);

impl ClockSeq {
    /// The width in bits.
    pub const BITS: u32 = 14;

    /// Creates the clock sequence with this value.
    ///
    /// # Errors
    ///
    /// Fails with [`OutOfRange`] for more than 14 bits.
    pub const fn new(value: u16) -> Result<Self, OutOfRange> {
        match OutOfRange::check("the clock sequence", value as u128, Self::BITS) {
            Ok(()) => Ok(Self(value)),
            Err(error) => Err(error),
        }
    }

    /// Creates a clock sequence from the low 14 bits of `random`.
    pub const fn from_random(random: u64) -> Self {
        Self((random & ((1 << Self::BITS) - 1)) as u16) // OK because 14 bits are left
    }

    /// Returns the value, below 2^14.
    pub const fn get(self) -> u16 {
        self.0
    }

    /// Returns the clock sequence after this one; 0 follows 16,383.
    #[must_use]
    pub const fn next(self) -> Self {
        Self::from_random(self.0 as u64 + 1)
    }
}

impl fmt::Display for ClockSeq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The 16 bytes that key a cluster's permutations, which hide order and volume. `Debug` does not print them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClusterKey([u8; 16]);

impl ClusterKey {
    /// Creates the key from these bytes.
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Derives the key of one region of a space from the key of the space. The key of one region reveals nothing about
    /// the key of another.
    pub fn of_region(&self, number: u64) -> Self {
        let hasher = SipHasher24::new_with_key(&self.0);
        let mut message = *b"region01................";
        message[8..16].copy_from_slice(&number.to_le_bytes());
        let mut half = |half: u64| {
            message[16..].copy_from_slice(&half.to_le_bytes());
            u128::from(hasher.hash(&message))
        };
        Self((half(0) | half(1) << 64).to_le_bytes())
    }

    /// Returns the bytes, for the store and for clients that expand blocks.
    pub const fn bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    #[test]
    fn ok_numbers_fit_their_width() {
        assert_eq!(Slot::new(63).map(Slot::get), Ok(63));
        assert_eq!(Node::new((1 << 48) - 1).map(Node::get), Ok((1 << 48) - 1));
        assert_eq!(ClockSeq::new(16383).map(|seq| seq.next().get()), Ok(0));
        assert_eq!(Slot::all().count(), 64);
    }

    #[test]
    fn ok_each_region_has_a_key_of_its_own() {
        let space = ClusterKey::new(*b"0123456789abcdef");
        // These values come from an implementation of the SipHash paper in another language.
        let expected = [
            (1, 0x392d_3d39_d70d_a352_1d39_75bd_9f8c_37d6),
            (0x0102_0304_0506_0708, 0xd3a3_305e_3718_4e54_10e4_dea6_3056_fee6),
        ];
        for (number, key) in expected {
            assert_eq!(u128::from_le_bytes(*space.of_region(number).bytes()), key, "{number}");
        }
    }

    #[test]
    fn err_numbers_beyond_their_width() {
        let error = Slot::new(64).expect_err("too large");
        assert_eq!(format!("{error}"), "the slot is 64, but must be from 0 to 63");
        assert!(Node::new(1 << 48).is_err());
        assert!(ClockSeq::new(1 << 14).is_err());
    }

    #[test]
    fn ok_the_node_of_a_slot_has_its_number_and_the_multicast_bit() {
        for slot in Slot::all() {
            for random in [0, u64::MAX, 0x1234_5678_9abc_def0] {
                let node = Node::for_slot(random, slot);
                assert_eq!((node.get() & 63, node.slot()), (u64::from(slot.get()), slot.get()));
                assert!(node.is_multicast() && node.get() < 1 << 48);
            }
        }
    }

    #[test]
    fn ok_a_key_is_not_printed() {
        assert_eq!(format!("{:?}", ClusterKey::new([7; 16])), "ClusterKey(..)");
    }
}
