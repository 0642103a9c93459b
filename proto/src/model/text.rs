//! The text of identifiers.

use kent_ids::{Block, Id, Uid11, layout::Spelling};

use crate::{packed::fence, stored::TextForm, v1};

/// The length of a UUID in its usual form, in bytes.
const UUID_BYTES: usize = 36;

/// Formats an identifier of a space of `bits` bits in the text form of the space.
pub fn text_of(identifier: u128, bits: u8, form: TextForm) -> String {
    match form {
        TextForm::Decimal => identifier.to_string(),
        TextForm::Hex => format!("0x{identifier:0width$x}", width = usize::from(bits).div_ceil(4)),
        TextForm::Uid11 => Uid11::new(identifier as u64).to_string(), // OK because such a space has 64 bits
    }
}

/// Expands a block to the text of its identifiers. `form` is the text form of the region's space. It has no effect on
/// blocks of other sources.
pub fn texts(block: &Block, form: TextForm) -> v1::TextIdentifiers {
    let mut ids = Vec::new();
    for_each_text(block, form, |text| ids.push(text.to_owned()));
    let (fence_subject, fence_token) = fence(block);
    v1::TextIdentifiers { ids, fence_subject, fence_token }
}

/// Expands a block of a custom layout to the text of its identifiers.
pub fn layout_texts(block: &Block, spelling: &Spelling) -> v1::TextIdentifiers {
    let mut ids = Vec::new();
    for_each_spelled(block, spelling, |text| ids.push(text.to_owned()));
    let (fence_subject, fence_token) = fence(block);
    v1::TextIdentifiers { ids, fence_subject, fence_token }
}

/// Calls `take` with the text of each identifier of a block of a custom layout, in order.
pub fn for_each_spelled(block: &Block, spelling: &Spelling, mut take: impl FnMut(&str)) {
    let bits = block.layout_constants().map_or(128, |constants| constants.layout.bits());
    block.values(rand::rng(), |values| values.iter().for_each(|value| take(&spelling.text(*value, bits))));
}

/// Calls `take` with the text of each identifier of a block, in order.
pub fn for_each_text(block: &Block, form: TextForm, mut take: impl FnMut(&str)) {
    for id in block.walk(rand::rng()) {
        match id {
            Id::Uuid(uuid) => take(uuid.hyphenated().encode_lower(&mut [0; UUID_BYTES])),
            Id::Uid11(_) => take(&id.to_string()),
            Id::Number { value, bits } => take(&text_of(value, bits, form)),
        }
    }
}

#[cfg(test)]
mod tests {
    use kent_ids::{ClusterKey, Position, RegionConstants, Series, Suffixes};

    use super::*;

    #[test]
    fn ok_the_text_that_people_see() {
        let constants = RegionConstants {
            base: 0xb4 << 12,
            bits: 20,
            suffix_bits: 12,
            number: 3,
            revision: 8,
            suffixes: Suffixes::EVERY,
        };
        let region = Block::region(constants, Position::new(5), 2).expect("a block");
        for (form, expected) in [(TextForm::Decimal, ["737285", "737286"]), (TextForm::Hex, ["0xb4005", "0xb4006"])] {
            let made = texts(&region, form);
            assert_eq!(made.ids, expected);
            assert_eq!((made.fence_subject, made.fence_token), (3, 8));
        }
        let series = Series::FullRand;
        let block = Block::series(series, ClusterKey::new([7; 16]), Position::new(0), 1).expect("a block");
        let made = texts(&block, TextForm::Decimal);
        assert_eq!((made.ids[0].len(), made.fence_subject, made.fence_token), (11, 0, 0));
    }
}
