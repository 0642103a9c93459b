//! Allocation requests and blocks.

use std::num::NonZeroU64;

use bytes::Bytes;
use kent_ids::{
    Block, BlockSource, ClockSeq, ClusterKey, Format, Node, Position, RegionConstants, Series, Slot, SlotConstants,
    SlotEpoch, Source, SourceError, Suffixes,
    layout::{Granted, Layout, LayoutConstants},
};
use thiserror::Error;

use super::{
    Invalid,
    regions::REQUEST_ID_BYTES_MAX,
    stride::{stride, stride_from},
};
use crate::v1;

/// The form in which identifiers are returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// The block itself, which the caller expands.
    Lease,
    /// The finished identifiers as bytes.
    Packed,
    /// The finished identifiers as text.
    Text,
    /// A run of consecutive signed 64-bit integers, from a region that issues its suffixes in order. No message asks for
    /// this form: the daemon's Redis port does.
    Integers,
}

/// A validated allocation request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocateInput {
    /// The source to allocate from.
    pub source: Source,
    /// The number of identifiers.
    pub count: NonZeroU64,
    /// The form of the answer.
    pub encoding: Encoding,
    /// The request ID; a strict region grants only one block per request ID. Empty for none.
    pub request_id: String,
    /// The value of the field `shard` or `tag` of a custom layout.
    pub tag: Option<u64>,
}

impl TryFrom<&v1::AllocateRequest> for AllocateInput {
    type Error = Invalid;

    fn try_from(request: &v1::AllocateRequest) -> Result<Self, Invalid> {
        let source = request.source.parse().map_err(|error: SourceError| Invalid::new("source", error))?;
        let (count, encoding) = (NonZeroU64::MIN, Encoding::Lease);
        let mut input = Self { source, count, encoding, request_id: String::new(), tag: None };
        input.ask_again(request)?;
        Ok(input)
    }
}

impl AllocateInput {
    /// Replaces everything except the source with the values in the next request for the same source.
    ///
    /// # Errors
    ///
    /// Returns [`Invalid`], which names the field. Earlier fields may already have been replaced.
    pub fn ask_again(&mut self, request: &v1::AllocateRequest) -> Result<(), Invalid> {
        self.count =
            NonZeroU64::new(request.count).ok_or_else(|| Invalid::new("count", "is 0, but must be at least 1"))?;
        self.encoding = match v1::Encoding::try_from(request.encoding) {
            Ok(v1::Encoding::Packed) => Encoding::Packed,
            Ok(v1::Encoding::Text) => Encoding::Text,
            Ok(v1::Encoding::Unspecified | v1::Encoding::Lease) => Encoding::Lease,
            Err(_) => {
                let problem =
                    format!("is {}, but must be ENCODING_LEASE, ENCODING_PACKED or ENCODING_TEXT", request.encoding);
                return Err(Invalid::new("encoding", problem));
            }
        };
        if request.request_id.len() > REQUEST_ID_BYTES_MAX {
            let problem = format!(
                "has {} bytes, but at most {REQUEST_ID_BYTES_MAX} are allowed",
                kent_ids::grouped(request.request_id.len())
            );
            return Err(Invalid::new("request_id", problem));
        }
        self.request_id.clone_from(&request.request_id);
        if request.tag.is_some() && !matches!(self.source, Source::Layout(_)) {
            return Err(Invalid::new(
                "tag",
                "is allowed only for layouts with a field shard or tag, as in layout:NAME",
            ));
        }
        self.tag = request.tag;
        Ok(())
    }
}

/// An invalid block in a message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadBlock {
    /// A field is missing.
    #[error("the block has no {0}")]
    Missing(&'static str),
    /// A field is outside its range.
    #[error("the block's {0} is not valid")]
    Invalid(&'static str),
    /// A format that this program does not know.
    #[error("the block is of format {0:?}, which this program does not know")]
    UnknownFormat(String),
}

impl TryFrom<v1::Block> for Block {
    type Error = BadBlock;

    fn try_from(block: v1::Block) -> Result<Self, BadBlock> {
        let first = Position::new(block.first.ok_or(BadBlock::Missing("first"))?.into());
        match block.constants.ok_or(BadBlock::Missing("constants"))? {
            v1::block::Constants::Slot(slot) => {
                let format = Format::by_token(&slot.format).ok_or(BadBlock::UnknownFormat(slot.format.clone()))?;
                let made = Self::slot(format, slot_constants(&slot)?, first, block.count);
                made.map_err(|_| BadBlock::Invalid("run of positions"))
            }
            v1::block::Constants::Region(region) => {
                let made = Self::region(region_constants(&region)?, first, block.count);
                made.map_err(|_| BadBlock::Invalid("run of suffixes"))
            }
            v1::block::Constants::Series(constants) => {
                let series: Series =
                    constants.series.parse().map_err(|_| BadBlock::UnknownFormat(constants.series.clone()))?;
                let made = Self::series(series, cluster_key(&constants.cluster_key)?, first, block.count);
                made.map_err(|_| BadBlock::Invalid("run of numbers"))
            }
            v1::block::Constants::Layout(constants) => {
                let made = Self::layout(layout_constants(&constants)?, first, block.count);
                made.map_err(|_| BadBlock::Invalid("run of positions"))
            }
        }
    }
}

fn layout_constants(constants: &v1::LayoutConstants) -> Result<LayoutConstants, BadBlock> {
    let layout: Layout = constants.fields.parse().map_err(|_| BadBlock::Invalid("layout"))?;
    let slot = u8::try_from(constants.slot).ok().and_then(|number| Slot::new(number).ok());
    let slot = slot.ok_or(BadBlock::Invalid("slot"))?;
    // The identifiers of a layout hold neither a node nor a clock sequence.
    let granted = Granted::Slot(SlotConstants {
        slot,
        epoch: SlotEpoch::new(constants.slot_epoch),
        node: Node::for_slot(0, slot),
        clock_seq: ClockSeq::from_random(0),
        key: cluster_key(&constants.cluster_key)?,
    });
    Ok(LayoutConstants { layout, granted, tag: constants.tag })
}

fn slot_constants(slot: &v1::SlotConstants) -> Result<SlotConstants, BadBlock> {
    let number = u8::try_from(slot.slot).ok().and_then(|number| Slot::new(number).ok());
    let clock_seq = u16::try_from(slot.clock_seq).ok().and_then(|bits| ClockSeq::new(bits).ok());
    Ok(SlotConstants {
        slot: number.ok_or(BadBlock::Invalid("slot"))?,
        epoch: SlotEpoch::new(slot.slot_epoch),
        node: Node::new(slot.node).map_err(|_| BadBlock::Invalid("node"))?,
        clock_seq: clock_seq.ok_or(BadBlock::Invalid("clock_seq"))?,
        key: cluster_key(&slot.cluster_key)?,
    })
}

/// Converts the bytes of a cluster key. Empty bytes mean that the format uses no key.
fn cluster_key(bytes: &[u8]) -> Result<ClusterKey, BadBlock> {
    match bytes.is_empty() {
        true => Ok(ClusterKey::new([0; 16])),
        false => bytes.try_into().map(ClusterKey::new).map_err(|_| BadBlock::Invalid("cluster_key")),
    }
}

fn region_constants(region: &v1::RegionConstants) -> Result<RegionConstants, BadBlock> {
    let narrow = |value: u32, field| u8::try_from(value).map_err(|_| BadBlock::Invalid(field));
    Ok(RegionConstants {
        base: region.base.ok_or(BadBlock::Missing("base"))?.into(),
        bits: narrow(region.bits, "bits")?,
        suffix_bits: narrow(region.suffix_bits, "suffix_bits")?,
        number: region.region_number,
        revision: region.revision,
        suffixes: match (region.scramble_key.is_empty(), region.stride) {
            (true, None) => Suffixes::EVERY,
            (true, Some(stride)) => Suffixes::Counted(stride_from(stride).ok_or(BadBlock::Invalid("stride"))?),
            (false, None) => Suffixes::Scrambled(cluster_key(&region.scramble_key)?),
            (false, Some(_)) => return Err(BadBlock::Invalid("stride")),
        },
    })
}

impl From<&Block> for v1::Block {
    fn from(block: &Block) -> Self {
        let key_if = |used, key: &ClusterKey| if used { Bytes::copy_from_slice(key.bytes()) } else { Bytes::new() };
        let constants = match block.source() {
            BlockSource::Slot(format, constants) => v1::block::Constants::Slot(v1::SlotConstants {
                format: format.token().to_owned(),
                slot: constants.slot.get().into(),
                slot_epoch: constants.epoch.get(),
                node: constants.node.get(),
                clock_seq: constants.clock_seq.get().into(),
                cluster_key: key_if(format.uses_key(), &constants.key),
            }),
            BlockSource::Region(constants) => v1::block::Constants::Region(v1::RegionConstants {
                bits: constants.bits.into(),
                base: Some(constants.base.into()),
                suffix_bits: constants.suffix_bits.into(),
                region_number: constants.number,
                revision: constants.revision,
                scramble_key: match constants.suffixes {
                    Suffixes::Scrambled(key) => Bytes::copy_from_slice(key.bytes()),
                    Suffixes::Counted(_) => Bytes::new(),
                },
                stride: match constants.suffixes {
                    Suffixes::Counted(counted) => stride(counted),
                    Suffixes::Scrambled(_) => None,
                },
            }),
            BlockSource::Series(series, key) => v1::block::Constants::Series(v1::SeriesConstants {
                series: series.token(),
                cluster_key: key_if(series.uses_key(), key),
            }),
            BlockSource::Layout(constants) => {
                let (slot, slot_epoch) = match &constants.granted {
                    Granted::Slot(slot) => (slot.slot.get().into(), slot.epoch.get()),
                    // No daemon grants identifiers of a layout without a time. The receiver rejects such a block.
                    Granted::Counter(_) => (u32::MAX, 0),
                };
                v1::block::Constants::Layout(v1::LayoutConstants {
                    fields: constants.layout.to_string(),
                    slot,
                    slot_epoch,
                    cluster_key: key_if(constants.layout.uses_key(), constants.granted.key()),
                    tag: constants.tag,
                })
            }
        };
        Self { first: Some(block.first().get().into()), count: block.count(), constants: Some(constants) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constants() -> SlotConstants {
        let slot = Slot::new(5).expect("a slot");
        SlotConstants {
            slot,
            epoch: SlotEpoch::new(9),
            node: Node::for_slot(0x1234_5678_9abc, slot),
            clock_seq: ClockSeq::from_random(77),
            key: ClusterKey::new(*b"sixteen bytes!!!"),
        }
    }

    #[test]
    fn ok_blocks_survive_encoding_and_decoding() {
        let region = RegionConstants {
            base: 0xb4 << 56,
            bits: 64,
            suffix_bits: 50,
            number: 3,
            revision: 8,
            suffixes: Suffixes::EVERY,
        };
        for block in [
            Block::slot(Format::by_token("xid").expect("known"), constants(), Position::new(1 << 40), 1000),
            Block::region(region, Position::new(17), 5),
            Block::series(Series::FullRand, ClusterKey::new([1; 16]), Position::new(3), 4),
        ] {
            let block = block.expect("valid");
            assert_eq!(Block::try_from(v1::Block::from(&block)), Ok(block));
        }
    }

    #[test]
    fn ok_blocks_of_layouts_make_the_same_identifiers_after_decoding() {
        for fields in ["zero:1 time:41:1ms@2015-01-01 shard:6 slot:8 counter:8", "time:44:1ms@1970-01-01 permuted:20"] {
            let layout: Layout = fields.parse().expect("a layout");
            let tag = if layout.tag_bits().is_some() { 9 } else { 0 };
            let constants = LayoutConstants { layout, granted: Granted::Slot(constants()), tag };
            let block = Block::layout(constants, Position::new(1 << 30), 5).expect("a block");
            let decoded = Block::try_from(v1::Block::from(&block)).expect("valid");
            let values = |block: &Block| {
                let mut all = Vec::new();
                block.values(rand::rng(), |values| all.extend_from_slice(values));
                all
            };
            assert_eq!(values(&decoded), values(&block), "{fields}");
            assert_eq!(decoded.fencing(), block.fencing());
        }
    }

    #[test]
    fn err_an_invalid_block_is_refused_with_its_field() {
        let good = v1::Block::from(
            &Block::slot(Format::by_token("uuidv7").expect("known"), constants(), Position::new(1), 1).expect("valid"),
        );
        let with = |change: fn(&mut v1::SlotConstants)| {
            let mut bad = good.clone();
            if let Some(v1::block::Constants::Slot(slot)) = &mut bad.constants {
                change(slot);
            }
            Block::try_from(bad)
        };
        assert_eq!(with(|slot| slot.slot = 64), Err(BadBlock::Invalid("slot")));
        assert_eq!(with(|slot| slot.node = 1 << 48), Err(BadBlock::Invalid("node")));
        assert_eq!(with(|slot| slot.clock_seq = 1 << 14), Err(BadBlock::Invalid("clock_seq")));
        assert_eq!(with(|slot| slot.cluster_key = Bytes::from_static(b"short")), Err(BadBlock::Invalid("cluster_key")));
        assert_eq!(with(|slot| slot.format = "v99".into()), Err(BadBlock::UnknownFormat("v99".into())));
        assert_eq!(Block::try_from(v1::Block { count: 0, ..good.clone() }), Err(BadBlock::Invalid("run of positions")));
        assert_eq!(Block::try_from(v1::Block { constants: None, ..good }), Err(BadBlock::Missing("constants")));
    }
}
