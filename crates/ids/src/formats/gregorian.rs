//! The fields that UUID versions 1 and 6 share: ticks of 100 ns since 1582, a clock sequence and a node (DCE 1.1;
//! RFC 9562, sections 5.1 and 5.6).
//!
//! The versions differ only in the order of the time's bits, so converting between them keeps every field. Version 1
//! puts the low bits first and does not sort by time. Version 6 puts the high bits first and sorts by time.

use alloc::{string::ToString, vec::Vec};

use uuid::Uuid;

use crate::{
    dce,
    error::{CodecError, OutOfRange},
    field::{Field, Inputs},
    line::{Line, Position},
    slot::{ClockSeq, Node},
    time::UnixNanos,
};

/// The width of the tick count in bits: enough until the year 5236.
pub(crate) const TICK_BITS: u32 = 60;
pub(crate) const TICK_NANOS: u64 = 100;
/// The number of ticks from 1582-10-15T00:00:00Z, the origin of the time scale, to 1970-01-01T00:00:00Z.
const UNIX_ORIGIN_TICKS: i128 = 0x01b2_1dd2_1381_4000;
pub(crate) const ORIGIN: UnixNanos = UnixNanos::new(-UNIX_ORIGIN_TICKS * TICK_NANOS as i128);
/// The number of decimal places of a second that a tick resolves.
const TIME_DIGITS: u32 = 7;

/// The line of positions, with one position for each tick.
pub(crate) static LINE: Line = Line::new(TICK_NANOS, ORIGIN, TICK_BITS, 0);
/// The key of the sequence of positions, which versions 1 and 6 share.
pub(crate) const SEQUENCE_KEY: &str = "gregorian";

const VARIANT: u64 = 0b10 << 62;

/// The fields of a UUID of version 1 or 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gregorian {
    ticks: u64,
    clock_seq: ClockSeq,
    node: Node,
}

impl Gregorian {
    /// Creates the fields from these values; `ticks` counts units of 100 ns since 1582-10-15T00:00:00Z, without leap
    /// seconds.
    ///
    /// # Errors
    ///
    /// Fails with [`OutOfRange`] for ticks of more than 60 bits.
    pub const fn new(ticks: u64, clock_seq: ClockSeq, node: Node) -> Result<Self, OutOfRange> {
        match OutOfRange::check("ticks", ticks as u128, TICK_BITS) {
            Ok(()) => Ok(Self { ticks, clock_seq, node }),
            Err(error) => Err(error),
        }
    }

    /// Returns the fields of a UUID of version 1 or 6.
    ///
    /// # Errors
    ///
    /// Fails with the first of these codes that applies: `wrong-variant`, `wrong-version`.
    pub fn from_uuid(uuid: Uuid) -> Result<Self, CodecError> {
        let version = dce::expect_version(uuid, &[1, 6])?;
        let (high, low) = uuid.as_u64_pair();
        let ticks = if version == 1 { ticks_of_v1(high) } else { ticks_of_v6(high) };
        let clock_seq = ClockSeq::from_random(low >> Node::BITS);
        Ok(Self { ticks, clock_seq, node: Node::truncate(low) })
    }

    /// Returns the UUID of version 1 with these fields.
    pub const fn to_v1(&self) -> Uuid {
        Uuid::from_u64_pair(high_of_v1(self.ticks), low_half(self.clock_seq, self.node))
    }

    /// Returns the UUID of version 6 with these fields.
    pub const fn to_v6(&self) -> Uuid {
        Uuid::from_u64_pair(high_of_v6(self.ticks), low_half(self.clock_seq, self.node))
    }

    /// Returns the ticks of 100 ns since 1582-10-15T00:00:00Z, below 2^60.
    pub const fn ticks(&self) -> u64 {
        self.ticks
    }

    /// Returns the clock sequence.
    pub const fn clock_seq(&self) -> ClockSeq {
        self.clock_seq
    }

    /// Returns the node field.
    pub const fn node(&self) -> Node {
        self.node
    }

    /// Returns the instant at which the tick begins.
    pub fn instant(&self) -> UnixNanos {
        LINE.instant(Position::new(u128::from(self.ticks)))
    }

    /// Reads the fields from `inputs`.
    pub(crate) fn from_inputs(inputs: &dyn Inputs) -> Result<Self, CodecError> {
        let ticks = inputs.uint("ticks", TICK_BITS)?;
        let clock_seq = ClockSeq::from_random(inputs.uint("clock_seq", ClockSeq::BITS)?);
        let node = Node::truncate(inputs.hex("node", 6)? as u64); // OK because the node has 48 bits
        Ok(Self::new(ticks, clock_seq, node)?)
    }

    /// Returns the named fields, for inspection.
    pub(crate) fn fields(&self) -> Vec<Field> {
        let clock_seq =
            Field::small("clock_seq", self.clock_seq.get(), "changes when the clock goes back or state is lost");
        time_fields(self.ticks).into_iter().chain([clock_seq]).chain(node_fields(self.node)).collect()
    }
}

/// Returns the named fields of a time.
pub(crate) fn time_fields(ticks: u64) -> [Field; 3] {
    let at = LINE.instant(Position::new(u128::from(ticks)));
    [
        Field::time(at, TIME_DIGITS, "creation time, by the clock of its generator"),
        Field::large("ticks", ticks, "100 ns since 1582-10-15T00:00:00Z"),
        Field::large("unix_100ns", i128::from(ticks) - UNIX_ORIGIN_TICKS, "100 ns since 1970-01-01T00:00:00Z"),
    ]
}

/// Returns the named fields of a node.
pub(crate) fn node_fields(node: Node) -> [Field; 3] {
    [
        Field::text("node", node.to_string(), "the generator"),
        Field::flag(
            "multicast",
            node.is_multicast(),
            "whether the multicast bit is set, so that the node is not a network card's address",
        ),
        Field::flag("local", node.is_local(), "whether the node is a locally administered address"),
    ]
}

/// Returns the slot, if `node` may be the node of a slot. The multicast bit is set in every slot's node.
pub(crate) fn issued_fields(node: Node) -> Vec<Field> {
    match node.is_multicast() {
        true => {
            let meaning = "if Kent issued it: its slot (bits 122-127, the end of the node)";
            Vec::from([Field::small("kent_slot", node.slot(), meaning)])
        }
        false => Vec::new(),
    }
}

/// Returns bits 64 to 127: the variant, the clock sequence and the node.
pub(crate) const fn low_half(clock_seq: ClockSeq, node: Node) -> u64 {
    VARIANT | (clock_seq.get() as u64) << Node::BITS | node.get()
}

/// Returns bits 0 to 63 of a UUID of version 1 with these ticks.
pub(crate) const fn high_of_v1(ticks: u64) -> u64 {
    let (time_low, time_mid, time_hi) = (ticks & 0xffff_ffff, ticks >> 32 & 0xffff, ticks >> 48);
    time_low << 32 | time_mid << 16 | 1 << 12 | time_hi
}

pub(crate) const fn ticks_of_v1(high: u64) -> u64 {
    (high & 0xfff) << 48 | (high >> 16 & 0xffff) << 32 | high >> 32
}

/// Returns bits 0 to 63 of a UUID of version 6 with these ticks.
pub(crate) const fn high_of_v6(ticks: u64) -> u64 {
    ticks >> 12 << 16 | 6 << 12 | ticks & 0xfff
}

const fn ticks_of_v6(high: u64) -> u64 {
    high >> 16 << 12 | high & 0xfff
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ErrorCode;

    #[test]
    fn err_another_variant_comes_before_another_version() {
        for (value, code) in [
            (0x4 << 76 | 0b10 << 62, ErrorCode::WrongVersion),
            (0x4 << 76 | 0b11 << 62, ErrorCode::WrongVariant),
            (0x1 << 76, ErrorCode::WrongVariant),
        ] {
            let error = Gregorian::from_uuid(Uuid::from_u128(value)).expect_err("another layout");
            assert_eq!(error.code(), code, "{error}");
        }
    }

    #[test]
    fn err_ticks_beyond_60_bits() {
        let (clock_seq, node) = (ClockSeq::from_random(0), Node::truncate(0));
        assert!(Gregorian::new((1 << 60) - 1, clock_seq, node).is_ok());
        assert!(Gregorian::new(1 << 60, clock_seq, node).is_err());
    }

    proptest! {
        #[test]
        fn ok_both_versions_keep_every_field(ticks in 0..1u64 << 60, clock_seq: u64, node: u64) {
            let (clock_seq, node) = (ClockSeq::from_random(clock_seq), Node::truncate(node));
            let fields = Gregorian::new(ticks, clock_seq, node).expect("60 bits");
            for (uuid, version) in [(fields.to_v1(), 1), (fields.to_v6(), 6)] {
                prop_assert_eq!(dce::version(uuid), Some(version));
                prop_assert_eq!(Gregorian::from_uuid(uuid), Ok(fields));
            }
        }

        #[test]
        fn ok_version_6_sorts_by_time(a in 0..1u64 << 60, b in 0..1u64 << 60) {
            let uuid = |ticks| Gregorian::new(ticks, ClockSeq::from_random(0), Node::truncate(0)).map(|it| it.to_v6());
            prop_assert_eq!(uuid(a).expect("60 bits").cmp(&uuid(b).expect("60 bits")), a.cmp(&b));
        }

        #[test]
        fn ok_any_uuid_of_these_versions_round_trips(value: u128, version in prop::sample::select(&[1u128, 6][..])) {
            let uuid = Uuid::from_u128(value & !(0xf << 76) & !(0b11 << 62) | version << 76 | 0b10 << 62);
            let fields = Gregorian::from_uuid(uuid).expect("version 1 or 6");
            prop_assert_eq!(if version == 1 { fields.to_v1() } else { fields.to_v6() }, uuid);
        }
    }
}
