//! Reads and writes the bits of an EXTUUID field by field, most significant field first.

use alloc::vec::Vec;

use super::reason::Reason;
use crate::field::BitRange;

/// The number of bits of an EXTUUID.
pub(super) const EXT_BITS: u32 = 122;

/// Reads fields and records the position of each.
#[derive(Debug)]
pub(super) struct Reader {
    bits: u128,
    next: u32,
    fields: Vec<(u32, &'static str)>,
}

impl Reader {
    pub(super) const fn new(bits: u128) -> Self {
        Self { bits, next: 0, fields: Vec::new() }
    }

    /// Returns the number of bits that have not been read.
    pub(super) const fn left(&self) -> u32 {
        EXT_BITS - self.next // OK because `take` never reads past the end
    }

    /// Reads the next `width` bits as an unsigned number. A field of zero bits reads as 0.
    pub(super) fn take(&mut self, width: u32, label: &'static str) -> u128 {
        debug_assert!(width <= self.left(), "{label} goes past the end");
        let width = width.min(self.left());
        if width == 0 {
            return 0;
        }
        self.fields.push((self.next, label));
        self.next += width;
        self.bits >> (EXT_BITS - self.next) & mask(width)
    }

    /// Reads the next `width` bits, at most 8.
    pub(super) fn take_u8(&mut self, width: u32, label: &'static str) -> u8 {
        self.take(width.min(u8::BITS), label) as u8 // OK because there are at most 8 bits
    }

    /// Reads one bit.
    pub(super) fn take_flag(&mut self, label: &'static str) -> bool {
        self.take(1, label) == 1
    }

    /// Reads the next `width` bits as a sign and a magnitude; `width` is from 2 to 118.
    pub(super) fn take_signed(&mut self, width: u32, label: &'static str) -> Result<i128, Reason> {
        let negative = self.take_flag("sign");
        let magnitude = self.take(width - 1, label) as i128; // OK because the magnitude has at most 117 bits
        match (negative, magnitude) {
            (true, 0) => Err(Reason::NegativeZero),
            (true, _) => Ok(-magnitude),
            (false, _) => Ok(magnitude),
        }
    }

    /// Returns the fields read so far as bit ranges of the UUID, without gaps. Unread bits are labeled `rest`.
    pub(super) fn layout(mut self) -> Vec<BitRange> {
        if self.next < EXT_BITS {
            self.fields.push((self.next, "rest"));
        }
        let ends = self.fields.iter().skip(1).map(|(first, _)| *first).chain([EXT_BITS]);
        let fields = self.fields.iter().zip(ends).map(|((first, label), end)| (*first, end, *label));
        in_uuid(fields)
    }
}

/// Writes fields, and returns the bits of all fields together.
#[derive(Debug, Default)]
pub(super) struct Writer {
    bits: u128,
    written: u32,
}

impl Writer {
    /// Appends a number of `width` bits.
    pub(super) fn put(&mut self, width: u32, value: impl Into<u128>) -> &mut Self {
        let value = value.into();
        debug_assert!(
            self.written + width <= EXT_BITS && value & !mask(width) == 0,
            "{value} does not fit {width} bits"
        );
        self.bits = self.bits << width | value & mask(width);
        self.written += width;
        self
    }

    /// Appends a sign and a magnitude, which take `width` bits in total.
    pub(super) fn put_signed(&mut self, width: u32, value: i128) -> &mut Self {
        self.put(1, value < 0).put(width - 1, value.unsigned_abs())
    }

    /// Appends a number that takes all the remaining bits.
    pub(super) fn put_rest(&mut self, value: impl Into<u128>) -> &mut Self {
        self.put(EXT_BITS.saturating_sub(self.written), value)
    }

    /// Returns the bits written so far, followed by zeros.
    pub(super) fn finish(&self) -> u128 {
        self.bits << EXT_BITS.saturating_sub(self.written)
    }
}

/// Returns the largest number that has `width` bits; `width` is at most 127.
pub(super) const fn mask(width: u32) -> u128 {
    (1 << width) - 1
}

/// Returns the number of bits that a number needs: 0 for zero.
pub(super) const fn bit_length(value: u128) -> u32 {
    u128::BITS - value.leading_zeros()
}

/// The version and the variant of the UUID divide an EXTUUID into three parts. Each entry is the first bit of a part,
/// the end of the part, and the part's first bit in the UUID.
const PARTS: [(u32, u32, u32); 3] = [(0, 48, 0), (48, 60, 52), (60, EXT_BITS, 66)];

/// Converts bit ranges of an EXTUUID, each given as first, end and label, into bit ranges of the UUID.
fn in_uuid(fields: impl Iterator<Item = (u32, u32, &'static str)> + Clone) -> Vec<BitRange> {
    let mut ranges = Vec::new();
    for (start, end, to) in PARTS {
        match to {
            52 => ranges.push(BitRange::new(48, 51, "version")),
            66 => ranges.push(BitRange::new(64, 65, "variant")),
            _ => {}
        }
        let inside = fields.clone().filter(|(first, last, _)| *first < end && *last > start);
        ranges.extend(inside.map(|(first, last, label)| {
            let [first, last] = [first.max(start), last.min(end) - 1].map(|bit| bit - start + to);
            BitRange::new(first as u8, last as u8, label) // OK because a UUID has 128 bits
        }));
    }
    ranges
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ok_fields_are_written_from_the_top() {
        let mut writer = Writer::default();
        writer.put(2, 0b10_u8).put(3, 0_u8).put_signed(3, -2).put_rest(5_u8);
        assert_eq!(writer.finish(), 0b10 << 120 | 0b110 << 114 | 5);
        let mut reader = Reader::new(writer.finish());
        assert_eq!((reader.take(2, "a"), reader.take_u8(3, "b")), (0b10, 0));
        assert_eq!((reader.take_signed(3, "c"), reader.left()), (Ok(-2), 114));
        assert_eq!((reader.take(0, "none"), reader.take(114, "d"), reader.left()), (0, 5, 0));
    }

    #[test]
    fn ok_a_negative_zero_is_rejected() {
        assert_eq!(Reader::new(1 << 121).take_signed(5, "x"), Err(Reason::NegativeZero));
        assert_eq!(Reader::new(0).take_signed(5, "x"), Ok(0));
    }

    #[test]
    fn ok_a_layout_leaves_out_version_and_variant() {
        let mut reader = Reader::new(0);
        reader.take(40, "a");
        reader.take(30, "b");
        let expected = [
            BitRange::new(0, 39, "a"),
            BitRange::new(40, 47, "b"),
            BitRange::new(48, 51, "version"),
            BitRange::new(52, 63, "b"),
            BitRange::new(64, 65, "variant"),
            BitRange::new(66, 75, "b"),
            BitRange::new(76, 127, "rest"),
        ];
        assert_eq!(reader.layout(), expected);
    }

    proptest! {
        #[test]
        fn ok_reading_inverts_writing(bits in 0..1_u128 << 122, widths in prop::collection::vec(1..60_u32, 0..8)) {
            let (mut reader, mut writer) = (Reader::new(bits), Writer::default());
            for width in widths {
                let width = width.min(reader.left());
                writer.put(width, reader.take(width, "field"));
            }
            writer.put_rest(reader.take(reader.left(), "rest"));
            prop_assert_eq!(writer.finish(), bits);
        }
    }
}
