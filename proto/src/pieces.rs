//! A large `AllocateResponse`, encoded piece by piece, so that only one piece is in memory at a time.

use kent_ids::{Block, IdKind};
use prost::{
    Message,
    encoding::{self, WireType},
};

use crate::{
    model::texts,
    packed::{self, fence},
    stored::TextForm,
    v1::{AllocateResponse, PackedIdentifiers, TextIdentifiers},
};

/// The pieces of a response with packed identifiers or with identifiers as text, in order.
#[derive(Clone, Debug)]
pub struct Pieces {
    head: Option<Vec<u8>>,
    rest: Option<Block>,
    /// The form of the text, or `None` for packed identifiers.
    form: Option<TextForm>,
    tail: Option<Vec<u8>>,
    len: usize,
}

/// The number of identifiers in a piece, which limits a piece to 16 KiB.
const PACKED_COUNT: u64 = 1024;
const TEXT_COUNT: u64 = 256;

/// The field numbers in `allocator.proto`.
const PACKED: u32 = 2;
const TEXT: u32 = 4;
const IDS: u32 = 1;

impl Pieces {
    /// Returns a response with the packed identifiers of a block.
    pub fn packed(block: &Block, clock_epoch: u64) -> Self {
        let (fence_subject, fence_token) = fence(block);
        let width = block.width_bytes() as u32; // OK because an identifier has at most 16 bytes
        let mut before = PackedIdentifiers { width, ..PackedIdentifiers::default() }.encode_to_vec();
        packed::encode_data_key(block.packed_len(), &mut before);
        let after = PackedIdentifiers { fence_subject, fence_token, ..PackedIdentifiers::default() }.encode_to_vec();
        Self::new(block, None, PACKED, (before, block.packed_len(), after), clock_epoch)
    }

    /// Returns a response with the identifiers of a block as text. `form` is the text form of the block's space, if it
    /// has one.
    pub fn texts(block: &Block, form: TextForm, clock_epoch: u64) -> Self {
        let (fence_subject, fence_token) = fence(block);
        let after = TextIdentifiers { ids: Vec::new(), fence_subject, fence_token }.encode_to_vec();
        Self::new(block, Some(form), TEXT, (Vec::new(), texts_len(block, form), after), clock_epoch)
    }

    fn new(
        block: &Block,
        form: Option<TextForm>,
        field: u32,
        (before, data, after): (Vec<u8>, usize, Vec<u8>),
        clock_epoch: u64,
    ) -> Self {
        let mut head = Vec::new();
        encoding::encode_key(field, WireType::LengthDelimited, &mut head);
        encoding::encode_varint((before.len() + data + after.len()) as u64, &mut head); // OK because a usize has at most 64 bits
        head.extend(before);
        let mut tail = after;
        tail.extend(AllocateResponse { identifiers: None, clock_epoch }.encode_to_vec());
        let len = head.len() + data + tail.len();
        Self { head: Some(head), rest: Some(block.clone()), form, tail: Some(tail), len }
    }

    /// Returns the length of the whole message in bytes.
    pub fn encoded_len(&self) -> usize {
        self.len
    }
}

impl Iterator for Pieces {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        if let Some(head) = self.head.take() {
            return Some(head);
        }
        let Some(rest) = self.rest.take() else { return self.tail.take() };
        let (part, rest) = rest.take_front(if self.form.is_some() { TEXT_COUNT } else { PACKED_COUNT });
        self.rest = rest;
        Some(match self.form {
            Some(form) => TextIdentifiers { ids: texts(&part, form).ids, ..TextIdentifiers::default() }.encode_to_vec(),
            None => {
                let mut bytes = Vec::with_capacity(part.packed_len());
                packed::pack(&part, |lot| bytes.extend_from_slice(lot));
                bytes
            }
        })
    }
}

/// Returns the encoded length of a block's identifiers as text, in bytes.
fn texts_len(block: &Block, form: TextForm) -> usize {
    let encoded = |len: usize| encoding::key_len(IDS) + encoding::encoded_len_varint(len as u64) + len; // OK because a usize has at most 64 bits
    if let (IdKind::Number { .. }, TextForm::Decimal) = (block.kind(), form) {
        let digits = |number: &u128| 1 + number.checked_ilog10().unwrap_or(0) as usize; // OK because a u128 has 39 digits at most
        let mut len = 0;
        // Only numbers without random bits are written in decimal.
        block.values(rand::rng(), |numbers| len += numbers.iter().map(|number| encoded(digits(number))).sum::<usize>());
        return len;
    }
    // In all other cases, the text of every identifier in a block has the same length.
    let (first, _) = block.clone().take_front(1);
    let each: usize = texts(&first, form).ids.iter().map(|id| encoded(id.len())).sum();
    each * usize::try_from(block.count()).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use kent_ids::{ClusterKey, Position, RegionConstants, Series};
    use proptest::prelude::*;

    use super::*;
    use crate::v1::allocate_response::Identifiers;

    proptest! {
        #[test]
        fn ok_the_pieces_are_the_message(
            (bits, count, first) in (8_u8..=64, 1_u64..5000, 0_u128..1 << 40),
            (clock_epoch, form) in (any::<u64>(), prop_oneof![Just(TextForm::Decimal), Just(TextForm::Hex)]),
            is_series: bool,
        ) {
            let constants = RegionConstants { base: 0, bits: 64, suffix_bits: bits, number: 3, revision: 8, scramble: None };
            let first = Position::new(first % (1 << (bits - 1)));
            let made = match is_series {
                true => Block::series(Series::FullRand, ClusterKey::new([7; 16]), first, count),
                false => Block::region(constants, first, count),
            };
            // The suffix may be too narrow for this count.
            prop_assume!(made.is_ok());
            let block = made.expect("a block");
            let packed = Identifiers::Packed(PackedIdentifiers::from(&block));
            let whole = AllocateResponse { identifiers: Some(packed), clock_epoch }.encode_to_vec();
            let pieces = Pieces::packed(&block, clock_epoch);
            prop_assert_eq!(pieces.encoded_len(), whole.len());
            let made = pieces.flatten().collect::<Vec<_>>();
            prop_assert_eq!(AllocateResponse::decode(&*made), AllocateResponse::decode(&*whole));
            let text = AllocateResponse { identifiers: Some(Identifiers::Text(texts(&block, form))), clock_epoch };
            let pieces = Pieces::texts(&block, form, clock_epoch);
            prop_assert!(pieces.clone().all(|piece| piece.len() <= 16 * 1024));
            let (len, made) = (pieces.encoded_len(), pieces.flatten().collect::<Vec<_>>());
            prop_assert_eq!((len, AllocateResponse::decode(&*made)), (made.len(), Ok(text)));
        }
    }
}
