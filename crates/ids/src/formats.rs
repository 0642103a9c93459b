//! The registry of formats, and the traits that every format implements.
//!
//! Each format is a submodule of this module, with an entry in [`REGISTRY`]. It implements [`Layout`], which reads
//! identifiers and makes them from fields. A format that Kent can issue also implements [`Mint`], which turns positions
//! into identifiers in bulk.

mod ext_uuid;
mod gregorian;
mod named;
mod uid11_profiles;
mod uuidv1;
mod uuidv2;
mod uuidv4;
mod uuidv6;
mod uuidv7;
mod uuidv7_draft01;
mod uuidv8;
mod uuidv8_draft01;
mod xid;

use alloc::{format, vec::Vec};
use core::{
    fmt,
    hash::{Hash, Hasher},
    str::FromStr,
};

pub use self::{gregorian::Gregorian, uuidv7::UuidV7, xid::Xid};
use crate::{
    dce,
    error::{CodecError, ErrorCode},
    field::{BitRange, Field, Inputs},
    id::{Id, IdKind},
    line::{Line, Position},
    permute::NarrowPermutation,
    slot::{Slot, SlotConstants},
    time::UnixNanos,
    wide::wide,
};

/// Every format, in the order in which listings show them.
static REGISTRY: &[&dyn Layout] = &[
    &uuidv1::UuidV1Format,
    &uuidv2::UuidV2Format,
    &named::UuidV3Format,
    &uuidv4::UuidV4Format,
    &named::UuidV5Format,
    &uuidv6::UuidV6Format,
    &uuidv7::UuidV7Format,
    &uuidv7_draft01::AnyLayout,
    &uuidv7_draft01::UUID_V7_DRAFT01_MS,
    &uuidv7_draft01::UUID_V7_DRAFT01_US,
    &uuidv7_draft01::UUID_V7_DRAFT01_NS,
    &uuidv8::UuidV8Format,
    &uuidv8_draft01::AnyWidth,
    &uuidv8_draft01::UUID_V8_DRAFT01_32,
    &uuidv8_draft01::UUID_V8_DRAFT01_48,
    &uuidv8_draft01::UUID_V8_DRAFT01_60,
    &uuidv8_draft01::UUID_V8_DRAFT01_64,
    &ext_uuid::ExtUuidFormat,
    &xid::XidFormat,
    &uid11_profiles::SnowishFormat,
    &uid11_profiles::TsSeqRandFormat,
    &uid11_profiles::FullRandFormat,
];

/// The kind of a format's identifiers, with the format's version or profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// A UUID.
    Uuid {
        /// The UUID version.
        version: u8,
        /// Whether a UUID of this version is read as this format by default. The bits do not distinguish formats that
        /// share a version.
        default: bool,
    },
    /// A uid11.
    Uid11 {
        /// The name of the profile, which is not part of the identifier.
        profile: &'static str,
    },
}

impl Family {
    /// Returns the size of an identifier in bytes.
    pub(crate) const fn width_bytes(self) -> usize {
        match self {
            Self::Uuid { .. } => 16,
            Self::Uid11 { .. } => 8,
        }
    }
}

/// Reads the identifiers of one format and makes them from fields.
pub(crate) trait Layout: Send + Sync {
    /// Returns the format's name.
    fn token(&self) -> &'static str;

    /// Returns the kind of the format's identifiers.
    fn family(&self) -> Family;

    /// Returns the fields as bit ranges, most significant first, without gaps.
    fn bits(&self) -> &'static [BitRange];

    /// Like [`bits`](Self::bits), but for a given value: in some formats, the ranges depend on the value.
    fn bits_of(&self, _value: u128) -> Vec<BitRange> {
        self.bits().to_vec()
    }

    /// Returns the fields of an identifier. `options` supplies the information that the bits lack, for formats that
    /// need it. Rejects a UUID of another variant or version.
    fn read(&self, value: u128, options: &dyn Inputs) -> Result<Vec<Field>, CodecError>;

    /// Returns the time that [`read`](Self::read) shows, without reading the other fields. The value must be one that
    /// `read` accepts.
    fn time(&self, _value: u128) -> Option<UnixNanos> {
        None
    }

    /// Makes the identifier with these fields.
    fn make(&self, inputs: &dyn Inputs) -> Result<Id, CodecError>;

    /// Returns the format as a [`Mint`], if Kent can issue it.
    fn mint(&'static self) -> Option<&'static dyn Mint> {
        None
    }
}

/// Turns positions into identifiers of one format.
pub(crate) trait Mint: Layout {
    /// Returns the line of positions.
    fn line(&self) -> &'static Line;

    /// Returns the key of the sequence of positions. Formats with the same key share one sequence.
    fn sequence_key(&self) -> &'static str {
        self.token()
    }

    /// Returns the number of random bits of each identifier: at most 64.
    fn tail_bits(&self) -> u32;

    /// Returns whether the identifiers depend on the cluster's key.
    fn uses_key(&self) -> bool {
        false
    }

    /// Returns whether the identifiers hold the slot's node and clock sequence.
    fn uses_node(&self) -> bool {
        false
    }

    /// Rejects a slot and a tail if they leave bits zero that the format requires to be nonzero.
    fn check(&self, _slot: Slot, _position: Position, _tail: u64) -> Result<(), CodecError> {
        Ok(())
    }

    /// Returns the extra fields that this value has if Kent issued it. The bits cannot prove that Kent issued the
    /// value. The result is empty if the bits prove that Kent did not issue it.
    fn issued(&self, _value: u128) -> Vec<Field> {
        Vec::new()
    }

    /// Turns a run of positions into identifiers. On entry, `values[i]` is the random tail of position `first + i`; on
    /// return, it is the identifier. All positions must be on the line. A tail that [`check`](Self::check) rejects is
    /// replaced by another tail.
    fn fill(&self, constants: &SlotConstants, first: Position, scratch: &mut Scratch, values: &mut [u128]);

    /// Turns positions into identifiers like [`fill`](Self::fill), but writes bytes. Formats issued in large volumes
    /// override this to skip the conversion from numbers.
    fn fill_bytes(&self, constants: &SlotConstants, first: Position, scratch: &mut Scratch, batch: Batch<'_>) {
        let values = &mut batch.values[..batch.tails.len()];
        values.iter_mut().zip(batch.tails).for_each(|(value, tail)| *value = u128::from(*tail));
        self.fill(constants, first, scratch, values);
        write_bytes(values, self.family().width_bytes(), batch.bytes);
    }
}

/// The buffers for a batch of identifiers that are written as bytes.
pub(crate) struct Batch<'a> {
    /// The random tail of each position.
    pub(crate) tails: &'a [u64],
    /// Scratch space for one number per tail.
    pub(crate) values: &'a mut [u128],
    /// The output, exactly as long as all identifiers together. Each identifier has its most significant byte first.
    pub(crate) bytes: &'a mut [u8],
}

/// Writes numbers as `width` bytes each, most significant byte first.
pub(crate) fn write_bytes(values: &[u128], width: usize, bytes: &mut [u8]) {
    match width {
        16 => bytes.as_chunks_mut().0.iter_mut().zip(values).for_each(|(to, value)| *to = value.to_be_bytes()),
        8 => wide(
            #[inline(always)]
            || {
                for (to, value) in bytes.as_chunks_mut().0.iter_mut().zip(values) {
                    *to = (*value as u64).to_be_bytes(); // OK because an identifier of 8 bytes is below 2^64
                }
            },
        ),
        _ => bytes.chunks_exact_mut(width).zip(values).for_each(|(to, value)| {
            to.copy_from_slice(&value.to_be_bytes()[16 - width..]);
        }),
    }
}

/// Splits a run of positions at the ends of ticks. Calls `fill` for each part with the tick, the first counter and the
/// values of the part.
pub(crate) fn each_tick<'a, T>(
    first: Position,
    counter_bits: u32,
    values: &'a mut [T],
    mut fill: impl FnMut(u128, u64, &'a mut [T]),
) {
    let mut position = first.get();
    let mut rest = values;
    while !rest.is_empty() {
        let counter = (position & ((1 << counter_bits) - 1)) as u64; // OK because a counter has fewer than 64 bits
        let left_in_tick = usize::try_from((1 << counter_bits) - counter).unwrap_or(usize::MAX);
        let (run, later) = rest.split_at_mut(left_in_tick.min(rest.len()));
        let made = run.len() as u128;
        fill(position >> counter_bits, counter, run);
        position += made;
        rest = later;
    }
}

/// A cache that a format keeps between the batches of one walk. It does not affect the identifiers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    permutation: Option<(u64, NarrowPermutation)>,
}

impl Scratch {
    /// Returns the permutation of `param`: the cached one, or a new one from `make`. A walk uses only one key and one
    /// label, so `param` identifies the permutation.
    pub(crate) fn permutation(&mut self, param: u64, make: impl FnOnce() -> NarrowPermutation) -> NarrowPermutation {
        match self.permutation {
            Some((known, permutation)) if known == param => permutation,
            _ => self.permutation.insert((param, make())).1,
        }
    }
}

/// A format, for reading identifiers and making them from fields.
#[derive(Clone, Copy)]
pub struct Codec(&'static dyn Layout);

impl Codec {
    /// Returns every format.
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        REGISTRY.iter().map(|layout| Self(*layout))
    }

    /// Returns the format with this name, or `None`.
    pub fn by_token(token: &str) -> Option<Self> {
        Self::all().find(|codec| codec.token() == token)
    }

    /// Returns the default format for reading UUIDs of this version, or `None` if the version has no format.
    pub fn by_version(version: u8) -> Option<Self> {
        Self::all().find(|codec| codec.family() == Family::Uuid { version, default: true })
    }

    /// Returns the profile of uid11 with this name, or `None`.
    pub fn by_profile(name: &str) -> Option<Self> {
        Self::all().find(|codec| matches!(codec.family(), Family::Uid11 { profile } if profile == name))
    }

    /// Returns the format's name.
    pub fn token(&self) -> &'static str {
        self.0.token()
    }

    /// Returns the kind of the format's identifiers.
    pub fn family(&self) -> Family {
        self.0.family()
    }

    /// Returns the fields as bit ranges, most significant first, without gaps. Bit 0 is the most significant bit of the
    /// identifier.
    pub fn bits(&self) -> &'static [BitRange] {
        self.0.bits()
    }

    /// Like [`bits`](Self::bits), but for a given value: in some formats, the ranges depend on the value.
    pub fn bits_of(&self, value: u128) -> Vec<BitRange> {
        self.0.bits_of(value)
    }

    /// Returns the fields of the identifier with this value. `options` supplies the information that the bits lack, for
    /// formats that need it.
    ///
    /// # Errors
    ///
    /// Fails with `wrong-variant` or `wrong-version`, checked in this order, if a UUID does not have this format. Fails
    /// with `bad-input` or a more specific code if an option is missing or not valid.
    pub fn read(&self, value: u128, options: &dyn Inputs) -> Result<Vec<Field>, CodecError> {
        self.0.read(value, options)
    }

    /// Returns the time of an identifier that [`read`](Self::read) accepts, or `None` if the format has no time. Much
    /// faster than `read`.
    pub fn time(&self, value: u128) -> Option<UnixNanos> {
        self.0.time(value)
    }

    /// Makes the identifier with these fields.
    ///
    /// # Errors
    ///
    /// Fails with `bad-input` for a missing input, with `range` for a number that does not fit its field, and with a
    /// more specific code for another input that is not valid, such as `node-zero`.
    pub fn make(&self, inputs: &dyn Inputs) -> Result<Id, CodecError> {
        self.0.make(inputs)
    }
}

impl fmt::Debug for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Codec({})", self.token())
    }
}

/// A format that Kent can issue: a line of positions, each of which maps to one identifier.
#[derive(Clone, Copy)]
pub struct Format(&'static dyn Mint);

impl Format {
    /// Returns every format that Kent can issue.
    pub fn all() -> impl Iterator<Item = Self> {
        REGISTRY.iter().filter_map(|layout| layout.mint()).map(Self)
    }

    /// Returns the format with this name, or `None`.
    pub fn by_token(token: &str) -> Option<Self> {
        Self::all().find(|format| format.token() == token)
    }

    /// Returns the format's name: its token in requests, metrics and logs.
    pub fn token(&self) -> &'static str {
        self.0.token()
    }

    /// Returns the format's positions.
    pub fn line(&self) -> &'static Line {
        self.0.line()
    }

    /// Returns the key of the format's sequence of positions. Formats with the same key share one sequence, so
    /// converting identifiers between these formats never produces a duplicate. The key is the token, except for
    /// `uuidv1` and `uuidv6`, which share a key.
    pub fn sequence_key(&self) -> &'static str {
        self.0.sequence_key()
    }

    /// Returns the size of an identifier in bytes.
    pub fn width_bytes(&self) -> usize {
        self.0.family().width_bytes()
    }

    /// Returns the number of random bits of each identifier: 0 to 64.
    pub fn tail_bits(&self) -> u32 {
        self.0.tail_bits()
    }

    /// Returns whether expanding a block requires the cluster's key.
    pub fn uses_key(&self) -> bool {
        self.0.uses_key()
    }

    /// Returns whether the identifiers hold the slot's node and clock sequence.
    pub fn uses_node(&self) -> bool {
        self.0.uses_node()
    }

    /// Returns the extra fields that an identifier of this format has *if* Kent issued it. The bits do not show whether
    /// Kent issued it. The result is empty for an identifier of another format, for one that Kent cannot have issued,
    /// and for formats without extra fields.
    pub fn issued(&self, id: Id) -> Vec<Field> {
        match (self.0.family(), id) {
            (Family::Uuid { version, .. }, Id::Uuid(uuid)) if dce::version(uuid) == Some(version) => {
                self.0.issued(id.to_u128())
            }
            (Family::Uid11 { .. }, Id::Uid11(_)) => self.0.issued(id.to_u128()),
            _ => Vec::new(),
        }
    }

    /// Makes the identifier of one position, with this random tail.
    ///
    /// # Errors
    ///
    /// Fails with `range` for a position past the end of the line or a tail wider than [`tail_bits`](Self::tail_bits),
    /// and with `node-zero` if bits that the format requires to be nonzero are zero.
    pub fn encode(&self, constants: &SlotConstants, position: Position, tail: u64) -> Result<Id, CodecError> {
        if position >= self.line().end() {
            let message = format!(
                "position {position} is past the end of {self}, whose positions are below {}",
                self.line().end()
            );
            return Err(CodecError::new(ErrorCode::Range, message));
        }
        let tail_bits = self.tail_bits();
        if tail.checked_shr(tail_bits).unwrap_or(0) != 0 {
            let message = format!("the tail is {tail}, but must fit {tail_bits} bits in {self}");
            return Err(CodecError::new(ErrorCode::Range, message));
        }
        self.0.check(constants.slot, position, tail)?;
        let mut values = [u128::from(tail)];
        self.0.fill(constants, position, &mut Scratch::default(), &mut values);
        Ok(self.kind().id(values[0]))
    }

    /// Returns the kind of the format's identifiers.
    pub(crate) fn kind(&self) -> IdKind {
        match self.0.family() {
            Family::Uuid { .. } => IdKind::Uuid,
            Family::Uid11 { .. } => IdKind::Uid11,
        }
    }

    /// See [`Mint::fill`].
    pub(crate) fn fill(&self, constants: &SlotConstants, first: Position, scratch: &mut Scratch, values: &mut [u128]) {
        self.0.fill(constants, first, scratch, values);
    }

    /// See [`Mint::fill_bytes`].
    pub(crate) fn fill_bytes(
        self,
        constants: &SlotConstants,
        first: Position,
        scratch: &mut Scratch,
        batch: Batch<'_>,
    ) {
        self.0.fill_bytes(constants, first, scratch, batch);
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

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.token())
    }
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Format({self})")
    }
}

impl FromStr for Format {
    type Err = CodecError;

    /// Returns the format with this name, or the error `bad-format`.
    fn from_str(token: &str) -> Result<Self, CodecError> {
        Self::by_token(token).ok_or_else(|| {
            let known: Vec<_> = Self::all().map(|format| format.token()).collect();
            let message = format!("there is no format {token:?} to allocate from: use one of {}", known.join(", "));
            CodecError::new(ErrorCode::BadFormat, message)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::field::FieldValue;

    #[test]
    fn ok_every_layout_covers_every_bit_once() {
        for codec in Codec::all() {
            let width = match codec.family() {
                Family::Uuid { .. } => 128,
                Family::Uid11 { .. } => 64,
            };
            let end = codec.bits().iter().fold(0, |next, range| {
                assert_eq!(range.first, next, "{codec:?}: {}", range.label);
                range.last + 1
            });
            assert_eq!(end, width, "{codec:?}");
        }
    }

    #[test]
    fn ok_tokens_are_unique_and_found() {
        for codec in Codec::all() {
            assert_eq!(Codec::all().filter(|other| other.token() == codec.token()).count(), 1);
            assert_eq!(Codec::by_token(codec.token()).map(|found| found.family()), Some(codec.family()));
        }
        for format in Format::all() {
            assert_eq!(Format::by_token(format.token()), Some(format));
            assert!(format.tail_bits() <= 64);
        }
        assert_eq!(Format::by_token("uuidv4"), None);
    }

    proptest! {
        #[test]
        fn ok_the_time_alone_is_that_of_the_fields(bits: u128) {
            struct Width;
            impl Inputs for Width {
                fn has(&self, name: &'static str) -> bool {
                    name == "width"
                }

                fn int(&self, _name: &'static str) -> Result<i128, CodecError> {
                    Ok(48)
                }

                fn text(&self, name: &'static str) -> Result<&str, CodecError> {
                    crate::NoInputs.text(name)
                }
            }
            for codec in Codec::all() {
                let value = match codec.family() {
                    Family::Uuid { version, .. } => {
                        bits & !(0xf << 76) & !(0b11 << 62) | u128::from(version) << 76 | 0b10 << 62
                    }
                    Family::Uid11 { .. } => bits >> 64,
                };
                let Ok(fields) = codec.read(value, &Width) else { continue };
                let shown = fields.into_iter().find_map(|field| match field.value {
                    FieldValue::Time(time) => Some(time),
                    _ => None,
                });
                let time = codec.time(value);
                prop_assert_eq!(shown.is_some(), time.is_some(), "{:?}", codec);
                if let (Some(Some(shown)), Some(time)) = (shown, time) {
                    prop_assert!(time.rfc3339(9).is_some_and(|time| time.starts_with(shown.trim_end_matches('Z'))));
                }
            }
        }
    }
}
