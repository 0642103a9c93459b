//! `PackedIdentifiers`, implemented by hand to expand a block directly into the send buffer.
//!
//! This is the largest message that Kent sends, and copying an identifier would cost almost as much as generating it.
//! The wire format is that of `allocator.proto`.

use bytes::{Buf, BufMut, Bytes};
use kent_ids::{Block, Tails};
use prost::{
    DecodeError, Message,
    encoding::{self, DecodeContext, WireType},
};

/// Finished identifiers: `kent.v1.PackedIdentifiers`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PackedIdentifiers {
    /// The number of bytes of one identifier: 16 for UUIDs, 8 for uid11, `ceil(n / 8)` for the n-bit identifiers of a
    /// region.
    pub width: u32,
    /// `width * count` bytes: each identifier with its most significant byte first.
    pub data: PackedData,
    /// The number of the slot or region that the fencing token belongs to. 0 for a series.
    pub fence_subject: u64,
    /// The fencing token: the slot's epoch or the table's revision. 0 for a series.
    pub fence_token: u64,
}

/// The bytes of packed identifiers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PackedData {
    /// The bytes of a received message.
    Bytes(Bytes),
    /// A block to expand. Each expansion generates new random tails.
    Block(Block),
}

impl Default for PackedData {
    fn default() -> Self {
        Self::Bytes(Bytes::new())
    }
}

impl PackedData {
    /// Returns the bytes. Expands a block.
    pub fn into_bytes(self) -> Bytes {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Block(block) => {
                let mut bytes = Vec::with_capacity(block.packed_len());
                pack(&block, |lot| bytes.extend_from_slice(lot));
                bytes.into()
            }
        }
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Block(block) => block.packed_len(),
        }
    }

    /// Returns true if there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<&Block> for PackedIdentifiers {
    fn from(block: &Block) -> Self {
        let (fence_subject, fence_token) = fence(block);
        Self {
            width: block.width_bytes() as u32, // OK because an identifier has at most 16 bytes
            data: PackedData::Block(block.clone()),
            fence_subject,
            fence_token,
        }
    }
}

/// Returns the number of the slot or region that the fencing token of a block belongs to, and the token. Both are 0 for
/// a series.
pub fn fence(block: &Block) -> (u64, u64) {
    block.fencing().map_or((0, 0), |fencing| (fencing.subject.number(), fencing.token))
}

/// The count from which it is faster to seed a separate generator of random tails.
const MANY: u64 = 64;

/// Passes the packed identifiers of a block to `take`, in batches.
pub(crate) fn pack(block: &Block, take: impl FnMut(&[u8])) {
    match block.count() {
        0..MANY => block.pack(rand::rng(), take),
        _ => block.pack(Tails::from_rng(&mut rand::rng()), take),
    }
}

/// The field numbers in `allocator.proto`.
const WIDTH: u32 = 1;
const DATA: u32 = 2;
const FENCE_SUBJECT: u32 = 3;
const FENCE_TOKEN: u32 = 4;

/// Encodes the key and the length that precede `len` bytes of identifiers.
pub(crate) fn encode_data_key(len: usize, buf: &mut impl BufMut) {
    encoding::encode_key(DATA, WireType::LengthDelimited, buf);
    encoding::encode_varint(len as u64, buf); // OK because a usize has at most 64 bits
}

impl Message for PackedIdentifiers {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        if self.width != 0 {
            encoding::uint32::encode(WIDTH, &self.width, buf);
        }
        if !self.data.is_empty() {
            encode_data_key(self.data.len(), buf);
            match &self.data {
                PackedData::Bytes(bytes) => buf.put_slice(bytes),
                PackedData::Block(block) => pack(block, |lot| buf.put_slice(lot)),
            }
        }
        if self.fence_subject != 0 {
            encoding::uint64::encode(FENCE_SUBJECT, &self.fence_subject, buf);
        }
        if self.fence_token != 0 {
            encoding::uint64::encode(FENCE_TOKEN, &self.fence_token, buf);
        }
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        match tag {
            WIDTH => encoding::uint32::merge(wire_type, &mut self.width, buf, ctx),
            DATA => {
                let mut bytes = Bytes::new();
                encoding::bytes::merge(wire_type, &mut bytes, buf, ctx)?;
                self.data = PackedData::Bytes(bytes);
                Ok(())
            }
            FENCE_SUBJECT => encoding::uint64::merge(wire_type, &mut self.fence_subject, buf, ctx),
            FENCE_TOKEN => encoding::uint64::merge(wire_type, &mut self.fence_token, buf, ctx),
            _ => encoding::skip_field(wire_type, tag, buf, ctx),
        }
    }

    fn encoded_len(&self) -> usize {
        let data = self.data.len();
        let number = |tag, value: u64| match value {
            0 => 0,
            _ => encoding::uint64::encoded_len(tag, &value),
        };
        let data = match data {
            0 => 0,
            // OK because a usize has at most 64 bits.
            _ => encoding::key_len(DATA) + encoding::encoded_len_varint(data as u64) + data,
        };
        number(WIDTH, self.width.into())
            + data
            + number(FENCE_SUBJECT, self.fence_subject)
            + number(FENCE_TOKEN, self.fence_token)
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use kent_ids::{ClusterKey, Position, RegionConstants, Series, Suffixes};
    use proptest::prelude::*;

    use super::*;

    /// The same message, with an implementation derived by prost.
    #[derive(Clone, PartialEq, Message)]
    struct Derived {
        #[prost(uint32, tag = "1")]
        width: u32,
        #[prost(bytes = "bytes", tag = "2")]
        data: Bytes,
        #[prost(uint64, tag = "3")]
        fence_subject: u64,
        #[prost(uint64, tag = "4")]
        fence_token: u64,
    }

    proptest! {
        #[test]
        fn ok_the_wire_format_equals_that_of_prost(
            width in prop::sample::select(vec![0_u32, 1, 16, 300]),
            data: Vec<u8>,
            fence_subject in prop::sample::select(vec![0_u64, 1, 127, 128, u64::MAX]),
            fence_token: u64,
        ) {
            let data = Bytes::from(data);
            let derived = Derived { width, data: data.clone(), fence_subject, fence_token };
            let ours = PackedIdentifiers { width, data: PackedData::Bytes(data), fence_subject, fence_token };
            prop_assert_eq!(ours.encode_to_vec(), derived.encode_to_vec());
            prop_assert_eq!(PackedIdentifiers::decode(&*derived.encode_to_vec()), Ok(ours));
        }
    }

    #[test]
    fn ok_a_block_is_expanded_when_it_is_encoded() {
        let constants = RegionConstants {
            base: 0xb4 << 12,
            bits: 20,
            suffix_bits: 12,
            number: 3,
            revision: 8,
            suffixes: Suffixes::EVERY,
        };
        for count in [1, 63, 64, 1000] {
            let block = Block::region(constants, Position::new(17), count).expect("within the suffixes");
            let message = PackedIdentifiers::from(&block);
            let bytes = message.clone().data.into_bytes();
            let sent = message.encode_to_vec();
            assert_eq!(sent.len(), message.encoded_len());
            let arrived = PackedIdentifiers::decode(&*sent).expect("a message");
            assert_eq!(arrived, PackedIdentifiers { data: PackedData::Bytes(bytes.clone()), ..message });
            let expected: Vec<u8> =
                (0..count as u32).flat_map(|n| (0xb4000 + 17 + n).to_be_bytes()[1..].to_vec()).collect();
            assert_eq!((bytes, arrived.fence_subject, arrived.fence_token), (expected.into(), 3, 8));
        }
    }

    #[test]
    fn ok_a_series_has_no_fencing_token() {
        let block = Block::series(Series::FullRand, ClusterKey::new([1; 16]), Position::new(3), 4).expect("numbers");
        let message = PackedIdentifiers::from(&block);
        assert_eq!((message.width, message.data.len(), message.fence_subject, message.fence_token), (8, 32, 0, 0));
    }
}
