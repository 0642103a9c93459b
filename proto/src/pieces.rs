//! A large `AllocateResponse`, encoded piece by piece, so that only one piece is in memory at a time.

use kent_ids::{Block, IdKind, layout::Spelling};
use prost::{
    Message,
    encoding::{self, WireType},
};
use rand::{SeedableRng, rngs::StdRng};

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
    form: Form,
    tail: Option<Vec<u8>>,
    len: usize,
}

/// The form of the identifiers.
#[derive(Clone, Debug)]
enum Form {
    Packed,
    /// As text, in the text form of a space.
    Text(TextForm),
    /// As text, in the spelling of a custom layout.
    Spelled(Box<Spelled>),
}

/// Makes the text of a custom layout. The text is made twice, first for its length, so the random bits of each piece come
/// from a seed.
#[derive(Clone, Debug)]
struct Spelled {
    spelling: Spelling,
    seed: [u8; 32],
    /// The number of the next piece.
    next: u64,
}

impl Spelled {
    fn ids(&mut self, piece: &Block) -> Vec<String> {
        let mut seed = self.seed;
        seed.iter_mut().zip(self.next.to_le_bytes()).for_each(|(byte, number)| *byte ^= number);
        self.next += 1;
        let (mut ids, bits) = (Vec::new(), piece.layout_constants().map_or(128, |constants| constants.layout.bits()));
        let take = |values: &[u128]| ids.extend(values.iter().map(|value| self.spelling.text(*value, bits)));
        piece.values(StdRng::from_seed(seed), take);
        ids
    }
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
        Self::new(block, Form::Packed, PACKED, (before, block.packed_len(), after), clock_epoch)
    }

    /// Returns a response with the identifiers of a block as text. `form` is the text form of the block's space, if it
    /// has one.
    pub fn texts(block: &Block, form: TextForm, clock_epoch: u64) -> Self {
        let (fence_subject, fence_token) = fence(block);
        let after = TextIdentifiers { ids: Vec::new(), fence_subject, fence_token }.encode_to_vec();
        Self::new(block, Form::Text(form), TEXT, (Vec::new(), texts_len(block, form), after), clock_epoch)
    }

    /// Returns a response with the identifiers of a custom layout as text.
    pub fn spelled(block: &Block, spelling: &Spelling, clock_epoch: u64) -> Self {
        let (fence_subject, fence_token) = fence(block);
        let after = TextIdentifiers { ids: Vec::new(), fence_subject, fence_token }.encode_to_vec();
        let form = Spelled { spelling: spelling.clone(), seed: rand::random(), next: 0 };
        let (mut len, mut rest, mut counted) = (0, Some(block.clone()), form.clone());
        while let Some(block) = rest {
            let (part, after) = block.take_front(TEXT_COUNT);
            len += counted.ids(&part).iter().map(|id| encoded_len(id.len())).sum::<usize>();
            rest = after;
        }
        Self::new(block, Form::Spelled(Box::new(form)), TEXT, (Vec::new(), len, after), clock_epoch)
    }

    fn new(
        block: &Block,
        form: Form,
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
        let (part, rest) = rest.take_front(if matches!(self.form, Form::Packed) { PACKED_COUNT } else { TEXT_COUNT });
        self.rest = rest;
        let message = |ids| TextIdentifiers { ids, ..TextIdentifiers::default() }.encode_to_vec();
        Some(match &mut self.form {
            Form::Text(form) => message(texts(&part, *form).ids),
            Form::Spelled(form) => message(form.ids(&part)),
            Form::Packed => {
                let mut bytes = Vec::with_capacity(part.packed_len());
                packed::pack(&part, |lot| bytes.extend_from_slice(lot));
                bytes
            }
        })
    }
}

/// Returns the encoded length of an identifier of `len` bytes.
fn encoded_len(len: usize) -> usize {
    encoding::key_len(IDS) + encoding::encoded_len_varint(len as u64) + len // OK because a usize has at most 64 bits
}

/// Returns the encoded length of a block's identifiers as text, in bytes.
fn texts_len(block: &Block, form: TextForm) -> usize {
    if let (IdKind::Number { .. }, TextForm::Decimal) = (block.kind(), form) {
        let digits = |number: &u128| 1 + number.checked_ilog10().unwrap_or(0) as usize; // OK because a u128 has 39 digits at most
        let mut len = 0;
        // Only numbers without random bits are written in decimal.
        block.values(rand::rng(), |numbers| {
            len += numbers.iter().map(|number| encoded_len(digits(number))).sum::<usize>()
        });
        return len;
    }
    // In all other cases, the text of every identifier in a block has the same length.
    let (first, _) = block.clone().take_front(1);
    let each: usize = texts(&first, form).ids.iter().map(|id| encoded_len(id.len())).sum();
    each * usize::try_from(block.count()).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use kent_ids::{ClusterKey, Position, RegionConstants, Series, Suffixes};
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
            let constants = RegionConstants { base: 0, bits: 64, suffix_bits: bits, number: 3, revision: 8, suffixes: Suffixes::EVERY };
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

    #[test]
    fn ok_the_pieces_of_a_layout_are_as_long_as_they_say() {
        use kent_ids::{
            ClockSeq, Node, Slot, SlotConstants, SlotEpoch,
            layout::{Granted, LayoutConstants},
        };
        let slot = Slot::new(3).expect("a slot");
        let granted = Granted::Slot(SlotConstants {
            slot,
            epoch: SlotEpoch::new(9),
            node: Node::for_slot(0, slot),
            clock_seq: ClockSeq::from_random(0),
            key: ClusterKey::new([7; 16]),
        });
        // The random bits come first, so that the number of decimal digits varies.
        let layout = "random:40 time:41:1ms@2020-01-01 slot:6 counter:12".parse().expect("a layout");
        let constants = LayoutConstants { layout, granted, tag: 0 };
        let block = Block::layout(constants, Position::new(1 << 50), 3000).expect("a block");
        for text in ["decimal", "base62 minimal prefix:ord_", "hex"] {
            let pieces = Pieces::spelled(&block, &text.parse().expect("a spelling"), 5);
            let (len, bytes) = (pieces.encoded_len(), pieces.flatten().collect::<Vec<u8>>());
            assert_eq!(bytes.len(), len, "{text}");
            let message = AllocateResponse::decode(&*bytes).expect("a message");
            let Some(Identifiers::Text(texts)) = message.identifiers else { panic!("text expected") };
            assert_eq!((texts.ids.len(), texts.fence_subject, texts.fence_token), (3000, 3, 9));
        }
    }
}
