//! What the daemon keeps in its store: records of `kent.store.v1` to domain types and back.
//!
//! A record is checked whole when it is read. What makes no sense is an error that says which fact is wrong, never a default.

use bytes::Bytes;
use kent_ids::{ClockSeq, ClusterKey, Node, SlotEpoch, UnixSeconds};
use kent_issue::{HolderId, SlotRecord};
use kent_regions::{Count, FormerPrefix, Kind, Prefix, Region, RegionNumber, Revision};
use prost::Message;
use thiserror::Error;

use crate::records;

/// A stored record that makes no sense, although its checksum is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a stored record makes no sense: {what}; nothing was overwritten: restore the store from a backup")]
pub struct Malformed {
    /// Which fact is wrong.
    pub what: &'static str,
}

const fn malformed(what: &'static str) -> Malformed {
    Malformed { what }
}

fn decode<M: Message + Default>(value: &[u8], what: &'static str) -> Result<M, Malformed> {
    M::decode(value).map_err(|_| malformed(what))
}

/// The record of the cluster key.
pub fn encode_cluster(key: &ClusterKey) -> Vec<u8> {
    records::ClusterRecord { cluster_key: Bytes::copy_from_slice(key.octets()) }.encode_to_vec()
}

/// Reads [`encode_cluster`]'s record.
///
/// # Errors
///
/// [`Malformed`].
pub fn decode_cluster(value: &[u8]) -> Result<ClusterKey, Malformed> {
    let record: records::ClusterRecord = decode(value, "the cluster record")?;
    let octets = record.cluster_key.as_ref().try_into().map_err(|_| malformed("the cluster key"))?;
    Ok(ClusterKey::new(octets))
}

/// A slot's record.
pub fn encode_slot(slot: &SlotRecord) -> Vec<u8> {
    let record = records::SlotRecord {
        node: slot.node.get(),
        clock_seq: slot.clock_seq.get().into(),
        epoch: slot.epoch.get(),
        holder: Bytes::copy_from_slice(&slot.holder.octets()),
        reserved_until: slot.reserved_until.get(),
    };
    record.encode_to_vec()
}

/// Reads [`encode_slot`]'s record.
///
/// # Errors
///
/// [`Malformed`].
pub fn decode_slot(value: &[u8]) -> Result<SlotRecord, Malformed> {
    let record: records::SlotRecord = decode(value, "a slot record")?;
    let clock_seq = u16::try_from(record.clock_seq).ok().and_then(|bits| ClockSeq::new(bits).ok());
    let holder = record.holder.as_ref().try_into().map_err(|_| malformed("the holder of a slot"))?;
    Ok(SlotRecord {
        node: Node::new(record.node).map_err(|_| malformed("the node of a slot"))?,
        clock_seq: clock_seq.ok_or(malformed("the clock sequence of a slot"))?,
        epoch: SlotEpoch::new(record.epoch),
        holder: HolderId::new(holder),
        reserved_until: UnixSeconds::new(record.reserved_until),
    })
}

/// The facts of a space that belong to no region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceFacts {
    /// The width of its identifiers.
    pub bits: u8,
    /// The revision of its table.
    pub revision: Revision,
    /// Numbers below this one have been given to regions.
    pub next_number: RegionNumber,
    /// The edit that made this revision.
    pub last_edit: EditId,
}

/// 16 random octets by which the author of an edit knows it again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EditId(pub [u8; 16]);

/// A space's record.
pub fn encode_space(space: &SpaceFacts) -> Vec<u8> {
    let record = records::SpaceRecord {
        bits: space.bits.into(),
        revision: space.revision.0,
        next_region: space.next_number.0,
        last_edit: Bytes::copy_from_slice(&space.last_edit.0),
    };
    record.encode_to_vec()
}

/// Reads [`encode_space`]'s record.
///
/// # Errors
///
/// [`Malformed`].
pub fn decode_space(value: &[u8]) -> Result<SpaceFacts, Malformed> {
    let record: records::SpaceRecord = decode(value, "a space record")?;
    Ok(SpaceFacts {
        bits: u8::try_from(record.bits).map_err(|_| malformed("the width of a space"))?,
        revision: Revision(record.revision),
        next_number: RegionNumber(record.next_region),
        last_edit: EditId(record.last_edit.as_ref().try_into().map_err(|_| malformed("the last edit of a space"))?),
    })
}

/// A region's record. Its counter and its number are kept apart.
pub fn encode_region(region: &Region) -> Vec<u8> {
    let former = |former: &FormerPrefix| records::FormerPrefix {
        prefix: former.prefix.to_string(),
        from_revision: former.from.0,
        to_revision: former.to.0,
    };
    let kind = match region.kind {
        Kind::Open => records::region_record::Kind::Open,
        Kind::Partial => records::region_record::Kind::Partial,
        Kind::Closed => records::region_record::Kind::Closed,
    };
    let record = records::RegionRecord {
        name: region.name.clone(),
        prefix: region.prefix.to_string(),
        zone_bits: region.zone.into(),
        suffix_bits: region.suffix.into(),
        kind: kind.into(),
        subregion_bits: region.sub_bits.into(),
        parent: region.parent.map(|parent| parent.0),
        former_prefixes: region.history.iter().map(former).collect(),
        prefix_since: region.since.0,
    };
    record.encode_to_vec()
}

/// Reads [`encode_region`]'s record of the region with this number and counter.
///
/// # Errors
///
/// [`Malformed`].
pub fn decode_region(value: &[u8], number: RegionNumber, issued: Count) -> Result<Region, Malformed> {
    let record: records::RegionRecord = decode(value, "a region record")?;
    let kind = match records::region_record::Kind::try_from(record.kind) {
        Ok(records::region_record::Kind::Open) => Kind::Open,
        Ok(records::region_record::Kind::Partial) => Kind::Partial,
        Ok(records::region_record::Kind::Closed) => Kind::Closed,
        Ok(records::region_record::Kind::Unspecified) | Err(_) => return Err(malformed("the kind of a region")),
    };
    let narrow = |bits: u32| u8::try_from(bits).map_err(|_| malformed("a width of a region"));
    let history: Result<_, _> = record.former_prefixes.iter().map(former_prefix).collect();
    Ok(Region {
        number,
        name: record.name,
        prefix: prefix(&record.prefix)?,
        zone: narrow(record.zone_bits)?,
        suffix: narrow(record.suffix_bits)?,
        kind,
        sub_bits: narrow(record.subregion_bits)?,
        parent: record.parent.map(RegionNumber),
        issued,
        since: Revision(record.prefix_since),
        history: history?,
    })
}

fn former_prefix(former: &records::FormerPrefix) -> Result<FormerPrefix, Malformed> {
    let (from, to) = (Revision(former.from_revision), Revision(former.to_revision));
    Ok(FormerPrefix { prefix: prefix(&former.prefix)?, from, to })
}

fn prefix(text: &str) -> Result<Prefix, Malformed> {
    text.parse().map_err(|_| malformed("the prefix of a region"))
}

/// A counter's record: big-endian octets without leading zeros, up to 17 of them.
pub fn encode_counter(reserved: Count) -> Vec<u8> {
    let octets = match reserved {
        Count::Below(count) => {
            let zeros = count.leading_zeros() as usize / 8; // OK because there are 128 at most
            Bytes::copy_from_slice(&count.to_be_bytes()[zeros..])
        }
        Count::Max => Bytes::from_static(&MAX),
    };
    records::CounterRecord { reserved: octets }.encode_to_vec()
}

/// 2^128, big-endian.
const MAX: [u8; 17] = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Reads [`encode_counter`]'s record.
///
/// # Errors
///
/// [`Malformed`].
pub fn decode_counter(value: &[u8]) -> Result<Count, Malformed> {
    let record: records::CounterRecord = decode(value, "a counter record")?;
    let octets = record.reserved.as_ref();
    match octets.len() {
        0..=16 => Ok(Count::Below(octets.iter().fold(0, |count, octet| count << 8 | u128::from(*octet)))),
        17 if octets == MAX => Ok(Count::Max),
        _ => Err(malformed("a counter")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot() -> SlotRecord {
        SlotRecord {
            node: Node::new(0xa1b2_c3d4_e5c5).expect("48 bits"),
            clock_seq: ClockSeq::new(0x3fff).expect("14 bits"),
            epoch: SlotEpoch::new(7),
            holder: HolderId::new([9; 16]),
            reserved_until: UnixSeconds::new(1_763_667_060),
        }
    }

    fn region() -> Region {
        Region {
            number: RegionNumber(4),
            name: "r1".into(),
            prefix: "10110100".parse().expect("a prefix"),
            zone: 6,
            suffix: 50,
            kind: Kind::Open,
            sub_bits: 0,
            parent: Some(RegionNumber(2)),
            issued: Count::Below(3),
            since: Revision(9),
            history: vec![FormerPrefix {
                prefix: "101101".parse().expect("a prefix"),
                from: Revision(1),
                to: Revision(8),
            }],
        }
    }

    #[test]
    fn ok_records_come_back_as_they_went() {
        assert_eq!(decode_slot(&encode_slot(&slot())), Ok(slot()));
        assert_eq!(decode_region(&encode_region(&region()), RegionNumber(4), Count::Below(3)), Ok(region()));
        for count in [Count::ZERO, Count::Below(1), Count::Below(256), Count::Below(u128::MAX), Count::Max] {
            assert_eq!(decode_counter(&encode_counter(count)), Ok(count));
        }
        let facts =
            SpaceFacts { bits: 64, revision: Revision(3), next_number: RegionNumber(5), last_edit: EditId([1; 16]) };
        assert_eq!(decode_space(&encode_space(&facts)), Ok(facts));
        assert_eq!(decode_cluster(&encode_cluster(&ClusterKey::new([3; 16]))), Ok(ClusterKey::new([3; 16])));
    }

    /// The bytes on disk are frozen: a change here would strand every store there is.
    #[test]
    fn ok_the_stored_form_is_frozen() {
        let hex = |octets: Vec<u8>| octets.iter().map(|octet| format!("{octet:02x}")).collect::<String>();
        assert_eq!(
            hex(encode_slot(&slot())),
            "09c5e5d4c3b2a1000010ff7f18072210090909090909090909090909090909092974\
             6c1f6900000000"
        );
        assert_eq!(
            hex(encode_region(&region())),
            "0a02723112083130313130313030180620322801380242\
             0c0a06313031313031100118085009"
        );
        assert_eq!(hex(encode_counter(Count::Below(1000))), "0a0203e8");
    }

    #[test]
    fn err_what_makes_no_sense_is_named() {
        assert_eq!(decode_slot(b"\xff"), Err(malformed("a slot record")));
        assert_eq!(decode_slot(b""), Err(malformed("the holder of a slot")));
        assert_eq!(decode_region(b"", RegionNumber(1), Count::ZERO), Err(malformed("the kind of a region")));
        assert_eq!(
            decode_counter(&[0x0a, 17, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            Err(malformed("a counter"))
        );
        assert_eq!(decode_cluster(b""), Err(malformed("the cluster key")));
    }
}
