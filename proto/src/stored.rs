//! Conversions between records of `kent.store.v1` and domain types.
//!
//! A record is validated completely when it is decoded. An invalid value causes an error that names it, and is never
//! replaced by a default.

use std::num::NonZeroU64;

use bytes::Bytes;
use kent_ids::{ClockSeq, ClusterKey, Node, SlotEpoch, Stride, UnixSeconds};
use kent_issue::{HolderId, SlotRecord};
use kent_regions::{
    AutoExpand, Change, ChunkPolicy, Count, Extras, FormerPrefix, Kind, Order, Pace, Past, Policy, Prefix, Region,
    RegionNumber, Revision, Texts,
};
use prost::Message;
use thiserror::Error;

use crate::records;

mod access;
mod ask;
mod counter;
mod image;
mod kept;
mod layout;

pub use access::{
    decode_access, decode_budget, decode_role, decode_spent, decode_token, encode_access, encode_budget, encode_role,
    encode_spent, encode_token,
};
pub use ask::{Ask, AskClosed, AskOutcome, Asks, decode_ask, decode_asks, encode_ask, encode_asks};
pub use counter::{Counter, Restored, decode_counter, decode_restores, encode_counter, encode_restores};
pub use image::{ImageFacts, ImageRegion, decode_image_head, decode_image_part, encode_image};
pub use kept::{
    EditMade, Listed, SeriesCount, StrictGrant, Unchanged, decode_forgotten, decode_forgotten_requests, decode_grant,
    decode_listed, decode_request, decode_series_count, decode_undated, encode_forgotten, encode_forgotten_requests,
    encode_grant, encode_listed, encode_request, encode_series_count, encode_undated,
};
pub use layout::{
    LayoutChange, LayoutEdit, LayoutOperation, StoredLayout, decode_layout, decode_layout_edit, decode_layouts,
    encode_layout, encode_layout_edit, encode_layouts,
};

/// A stored record that is invalid although its checksum is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a stored record is invalid ({what}); nothing was overwritten; restore the store from a backup")]
pub struct Malformed {
    /// The value that is wrong.
    pub what: &'static str,
}

const fn malformed(what: &'static str) -> Malformed {
    Malformed { what }
}

fn decode<M: Message + Default>(value: &[u8], what: &'static str) -> Result<M, Malformed> {
    M::decode(value).map_err(|_| malformed(what))
}

/// Encodes the record of the cluster key.
pub fn encode_cluster(key: &ClusterKey) -> Vec<u8> {
    records::ClusterRecord { cluster_key: Bytes::copy_from_slice(key.bytes()) }.encode_to_vec()
}

/// Decodes a record written by [`encode_cluster`].
///
/// # Errors
///
/// [`Malformed`] names the value that is wrong.
pub fn decode_cluster(value: &[u8]) -> Result<ClusterKey, Malformed> {
    let record: records::ClusterRecord = decode(value, "the cluster record")?;
    let bytes = record.cluster_key.as_ref().try_into().map_err(|_| malformed("the cluster key"))?;
    Ok(ClusterKey::new(bytes))
}

/// Encodes the record of a slot.
pub fn encode_slot(slot: &SlotRecord) -> Vec<u8> {
    let record = records::SlotRecord {
        node: slot.node.get(),
        clock_seq: slot.clock_seq.get().into(),
        epoch: slot.epoch.get(),
        holder: Bytes::copy_from_slice(&slot.holder.bytes()),
        reserved_until: slot.reserved_until.get(),
        seen: slot.seen.get(),
    };
    record.encode_to_vec()
}

/// Decodes a record written by [`encode_slot`].
///
/// # Errors
///
/// [`Malformed`] names the value that is wrong.
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
        seen: UnixSeconds::new(record.seen),
    })
}

/// The data of a space, without its regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpaceFacts {
    /// The width of its identifiers in bits.
    pub bits: u8,
    /// The revision of its table.
    pub revision: Revision,
    /// The number of the next region. All lower numbers are taken.
    pub next_number: RegionNumber,
    /// The edit that made this revision.
    pub last_edit: EditId,
    /// The key of the scrambled order.
    pub scramble_key: ClusterKey,
    /// The text form of its identifiers.
    pub text_form: TextForm,
    /// Whether the space is deleted. A new space with the same name continues the revisions and the region numbers.
    pub deleted: bool,
}

/// The text form of a space's identifiers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TextForm {
    /// Decimal digits.
    #[default]
    Decimal,
    /// `0x` and hexadecimal digits, with leading zeros for the full width.
    Hex,
    /// 11 base-58 characters. Only for spaces of 64 bits.
    Uid11,
}

/// 16 random bytes that identify an edit. If a reply of the store is lost, a daemon compares these bytes to find out
/// whether its edit was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EditId(pub [u8; 16]);

/// Encodes the record of a space.
pub fn encode_space(space: &SpaceFacts) -> Vec<u8> {
    let record = records::SpaceRecord {
        bits: space.bits.into(),
        revision: space.revision.0,
        next_region: space.next_number.0,
        last_edit: Bytes::copy_from_slice(&space.last_edit.0),
        scramble_key: Bytes::copy_from_slice(space.scramble_key.bytes()),
        text_form: match space.text_form {
            TextForm::Decimal => records::space_record::TextForm::Decimal,
            TextForm::Hex => records::space_record::TextForm::Hex,
            TextForm::Uid11 => records::space_record::TextForm::Uid11,
        }
        .into(),
        deleted: space.deleted,
    };
    record.encode_to_vec()
}

/// Decodes a record written by [`encode_space`].
///
/// # Errors
///
/// [`Malformed`] names the value that is wrong.
pub fn decode_space(value: &[u8]) -> Result<SpaceFacts, Malformed> {
    let record: records::SpaceRecord = decode(value, "a space record")?;
    Ok(SpaceFacts {
        bits: u8::try_from(record.bits).map_err(|_| malformed("the width of a space"))?,
        revision: Revision(record.revision),
        next_number: RegionNumber(record.next_region),
        last_edit: EditId(record.last_edit.as_ref().try_into().map_err(|_| malformed("the last edit of a space"))?),
        scramble_key: ClusterKey::new(
            record.scramble_key.as_ref().try_into().map_err(|_| malformed("the key of a space's scrambled order"))?,
        ),
        text_form: match records::space_record::TextForm::try_from(record.text_form) {
            Ok(records::space_record::TextForm::Decimal) => TextForm::Decimal,
            Ok(records::space_record::TextForm::Hex) => TextForm::Hex,
            Ok(records::space_record::TextForm::Uid11) => TextForm::Uid11,
            Ok(records::space_record::TextForm::Unspecified) | Err(_) => {
                return Err(malformed("the text form of a space"));
            }
        },
        deleted: record.deleted,
    })
}

/// Encodes the record of a region, without its number and counter: the number is in the key, and the counter has its
/// own record.
pub fn encode_region(region: &Region) -> Vec<u8> {
    region_record(region).encode_to_vec()
}

fn region_record(region: &Region) -> records::RegionRecord {
    let former = |former: &FormerPrefix| records::FormerPrefix {
        prefix: former.prefix.to_string(),
        from_revision: former.from.0,
        to_revision: former.to.0,
        reserved: count_bytes(former.issued),
    };
    let (step, offset) = stride_fields(region.policy().stride);
    let (min_chunk, max_chunk, strict) = match region.policy().chunk {
        ChunkPolicy::Adaptive => (0, 0, false),
        ChunkPolicy::Within { min, max } => (min, max, false),
        ChunkPolicy::Strict => (0, 0, true),
    };
    let auto_expand = |auto: AutoExpand| records::AutoExpand {
        at_percent: auto.at_percent.into(),
        by_bits: auto.by_bits.into(),
        max_suffix_bits: auto.max_suffix.into(),
    };
    records::RegionRecord {
        name: region.name.to_string(),
        prefix: region.prefix.to_string(),
        zone_bits: region.zone.into(),
        suffix_bits: region.suffix.into(),
        kind: kind_field(region.kind).into(),
        subregion_bits: region.sub_bits.into(),
        parent: region.parent().map(|parent| parent.0),
        former_prefixes: region.past().prefixes.iter().map(former).collect(),
        prefix_since: region.since.0,
        order: order_field(region.order).into(),
        sealed: region.sealed,
        delegated: region.delegated,
        auto_expand: region.policy().auto_expand.map(auto_expand),
        cap: region.policy().cap.map(count_bytes),
        min_chunk,
        max_chunk,
        strict,
        step,
        offset,
        owner: region.texts().owner.clone(),
        description: region.texts().description.clone(),
        labels: region.texts().labels.clone(),
        pace: region.pace.get(),
        key_number: region.key_number().0,
        first_name: region.past().first_name.as_deref().unwrap_or_default().to_owned(),
    }
}

fn kind_field(kind: Kind) -> records::region_record::Kind {
    match kind {
        Kind::Open => records::region_record::Kind::Open,
        Kind::Partial => records::region_record::Kind::Partial,
        Kind::Closed => records::region_record::Kind::Closed,
    }
}

fn kind_from(field: i32) -> Result<Kind, Malformed> {
    match records::region_record::Kind::try_from(field) {
        Ok(records::region_record::Kind::Open) => Ok(Kind::Open),
        Ok(records::region_record::Kind::Partial) => Ok(Kind::Partial),
        Ok(records::region_record::Kind::Closed) => Ok(Kind::Closed),
        Ok(records::region_record::Kind::Unspecified) | Err(_) => Err(malformed("the kind of a region")),
    }
}

fn order_field(order: Order) -> records::region_record::Order {
    match order {
        Order::Sequential => records::region_record::Order::Sequential,
        Order::Scrambled => records::region_record::Order::Scrambled,
        Order::External => records::region_record::Order::External,
    }
}

fn order_from(field: i32) -> Result<Order, Malformed> {
    match records::region_record::Order::try_from(field) {
        Ok(records::region_record::Order::Sequential) => Ok(Order::Sequential),
        Ok(records::region_record::Order::Scrambled) => Ok(Order::Scrambled),
        Ok(records::region_record::Order::External) => Ok(Order::External),
        Err(_) => Err(malformed("the order of a region")),
    }
}

fn pace_from(field: u64) -> Result<Pace, Malformed> {
    NonZeroU64::new(field).map(Pace::per_second).ok_or(malformed("the pace of a region"))
}

/// Decodes a record written by [`encode_region`] for the region with this number and counter.
///
/// # Errors
///
/// [`Malformed`] names the value that is wrong.
pub fn decode_region(value: &[u8], number: RegionNumber, issued: Count) -> Result<Region, Malformed> {
    region_from(decode(value, "a region record")?, number, issued)
}

fn region_from(record: records::RegionRecord, number: RegionNumber, issued: Count) -> Result<Region, Malformed> {
    let policy = policy_from(&record)?;
    let narrow = |bits: u32| u8::try_from(bits).map_err(|_| malformed("a width of a region"));
    let past = Past {
        first_name: (!record.first_name.is_empty()).then(|| record.first_name.as_str().into()),
        key_number: match (record.key_number, record.order == records::region_record::Order::Scrambled as i32) {
            (0, true) => return Err(malformed("the key number of a scrambled region")),
            (key_number, _) => other_than(number, key_number),
        },
        prefixes: record.former_prefixes.iter().map(former_prefix).collect::<Result<_, _>>()?,
    };
    let texts = Texts { owner: record.owner, description: record.description, labels: record.labels };
    Ok(Region {
        number,
        name: record.name.into(),
        prefix: prefix(&record.prefix)?,
        zone: narrow(record.zone_bits)?,
        suffix: narrow(record.suffix_bits)?,
        kind: kind_from(record.kind)?,
        sub_bits: narrow(record.subregion_bits)?,
        parent: record.parent.map(RegionNumber).into(),
        issued: issued.into(),
        since: Revision(record.prefix_since),
        order: order_from(record.order)?,
        pace: pace_from(record.pace)?,
        sealed: record.sealed,
        delegated: record.delegated,
        extras: Extras { past: past.into(), policy: policy.into(), texts: texts.into() }.into(),
    })
}

/// Returns the key number of the region `number`, unless it is missing or the region's own number.
pub(crate) fn other_than(number: RegionNumber, key_number: u64) -> Option<RegionNumber> {
    (key_number != 0 && key_number != number.0).then_some(RegionNumber(key_number))
}

fn policy_from(record: &records::RegionRecord) -> Result<Policy, Malformed> {
    let narrow = |bits: u32| u8::try_from(bits).map_err(|_| malformed("the policy of a region"));
    let auto_expand = |auto: &records::AutoExpand| {
        Ok(AutoExpand {
            at_percent: narrow(auto.at_percent)?,
            by_bits: narrow(auto.by_bits)?,
            max_suffix: narrow(auto.max_suffix_bits)?,
        })
    };
    let chunk = match (record.strict, record.min_chunk, record.max_chunk) {
        (true, 0, 0) => ChunkPolicy::Strict,
        (false, 0, 0) => ChunkPolicy::Adaptive,
        (false, min, max) => ChunkPolicy::Within { min, max },
        (true, ..) => return Err(malformed("the policy of a region")),
    };
    Ok(Policy {
        auto_expand: record.auto_expand.as_ref().map(auto_expand).transpose()?,
        cap: record.cap.as_deref().map(count_from).transpose()?,
        chunk,
        stride: stride_from(record.step, record.offset).ok_or(malformed("the policy of a region"))?,
    })
}

/// Converts a stride to the fields of a record: both are 0 for every number.
fn stride_fields(stride: Stride) -> (u32, u32) {
    match stride {
        Stride::EVERY => (0, 0),
        _ => (stride.step().into(), stride.offset().into()),
    }
}

/// Converts the fields of a record to a stride.
fn stride_from(step: u32, offset: u32) -> Option<Stride> {
    match (step, offset) {
        (0, 0) => Some(Stride::EVERY),
        _ => Stride::new(step.try_into().ok()?, offset.try_into().ok()?),
    }
}

/// The record of one edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryEntry {
    /// Identifies the edit.
    pub edit: EditId,
    /// The time of the edit in Unix nanoseconds.
    pub unix_nanos: i64,
    /// Who made the edit.
    pub principal: String,
    /// The kind of edit, such as `split`.
    pub operation: String,
    /// The reason in the request.
    pub reason: String,
    /// The request ID in the request.
    pub request_id: String,
    /// Every changed region before and after the edit, without counters.
    pub changes: Vec<Change>,
    /// Present if the edit declared suffixes of the first region as issued. Replicas then drop the chunks that contain
    /// these suffixes.
    pub declared: Option<Declared>,
    /// The revision of the edit that this edit reverts.
    pub undoes: Option<Revision>,
    /// The previous revision. `None` if it is the next lower number. Only a restore or a migration leaves a gap between
    /// revisions.
    pub follows: Option<Revision>,
}

/// The counter of a region before and after an edit that declared suffixes as issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The counter before the edit.
    pub before: Count,
    /// The counter after the edit.
    pub after: Count,
}

/// The maximum number of bytes of regions in one part. The rest of the size limit of a stored value is left for the
/// other fields of the part.
const PART_BYTES: usize = 12 * 1024;

/// Encodes the record of an edit, in one or more parts.
pub fn encode_history(entry: &HistoryEntry) -> Vec<Vec<u8>> {
    let sides = entry.changes.iter().flat_map(|change| {
        let side = |after, region: &Region| records::history_record::Side {
            region: region.number.0,
            after,
            record: Some(region_record(region)),
            deleted: change.after.is_none(),
        };
        let before = change.before.as_ref().map(|before| side(false, before));
        before.into_iter().chain(change.after.as_ref().map(|after| side(true, after)))
    });
    let mut parts = vec![records::HistoryRecord {
        unix_nanos: entry.unix_nanos,
        principal: entry.principal.clone(),
        operation: entry.operation.clone(),
        reason: entry.reason.clone(),
        request_id: entry.request_id.clone(),
        sides: Vec::new(),
        parts: 0,
        follows: entry.follows.map(|revision| revision.0),
        declared: entry.declared.map(|declared| records::history_record::Declared {
            before: count_bytes(declared.before),
            after: count_bytes(declared.after),
        }),
        undoes: entry.undoes.map_or(0, |revision| revision.0),
        edit: Bytes::copy_from_slice(&entry.edit.0),
    }];
    let mut filled = 0;
    for side in sides {
        filled += side.encoded_len();
        if filled > PART_BYTES && parts.last().is_some_and(|part| !part.sides.is_empty()) {
            filled = side.encoded_len();
            parts.push(records::HistoryRecord::default());
        }
        if let Some(part) = parts.last_mut() {
            part.sides.push(side);
        }
    }
    let count = u32::try_from(parts.len()).unwrap_or(u32::MAX);
    parts.iter_mut().for_each(|part| part.parts = count);
    parts.iter().map(Message::encode_to_vec).collect()
}

/// Decodes all parts written by [`encode_history`], in order.
///
/// # Errors
///
/// [`Malformed`] names the value that is wrong.
pub fn decode_history<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> Result<HistoryEntry, Malformed> {
    let what = malformed("the record of an edit");
    let parts: Vec<records::HistoryRecord> =
        parts.into_iter().map(|part| decode(part, "the record of an edit")).collect::<Result<_, _>>()?;
    let [first, ..] = &parts[..] else { return Err(what) };
    if usize::try_from(first.parts) != Ok(parts.len()) {
        return Err(what);
    }
    let mut entry = HistoryEntry {
        edit: EditId(first.edit.as_ref().try_into().map_err(|_| malformed("the ID of an edit"))?),
        unix_nanos: first.unix_nanos,
        principal: first.principal.clone(),
        operation: first.operation.clone(),
        reason: first.reason.clone(),
        request_id: first.request_id.clone(),
        changes: Vec::new(),
        declared: first.declared.as_ref().map(declared_from).transpose()?,
        follows: first.follows.map(Revision),
        undoes: (first.undoes != 0).then_some(Revision(first.undoes)),
    };
    let mut before: Option<Region> = None;
    for side in parts.into_iter().flat_map(|part| part.sides) {
        let region = region_from(side.record.ok_or(what)?, RegionNumber(side.region), Count::ZERO)?;
        match (side.after, before.take()) {
            (false, None) if side.deleted => entry.changes.push(Change::deleted(region)),
            (false, None) => before = Some(region),
            (true, earlier) if earlier.as_ref().is_none_or(|earlier| earlier.number == region.number) => {
                entry.changes.push(Change { number: region.number, before: earlier, after: Some(region) });
            }
            _ => return Err(what),
        }
    }
    if before.is_none() { Ok(entry) } else { Err(what) }
}

fn declared_from(record: &records::history_record::Declared) -> Result<Declared, Malformed> {
    Ok(Declared { before: count_from(&record.before)?, after: count_from(&record.after)? })
}

/// Decodes the revision before an edit from the first part of its record. Returns `None` if that revision is the next
/// lower number.
///
/// # Errors
///
/// [`Malformed`] names the value that is wrong.
pub fn decode_history_follows(first: &[u8]) -> Result<Option<u64>, Malformed> {
    let record: records::HistoryRecord = decode(first, "the record of an edit")?;
    Ok(record.follows)
}

fn former_prefix(former: &records::FormerPrefix) -> Result<FormerPrefix, Malformed> {
    let (from, to) = (Revision(former.from_revision), Revision(former.to_revision));
    Ok(FormerPrefix { prefix: prefix(&former.prefix)?, from, to, issued: count_from(&former.reserved)? })
}

fn prefix(text: &str) -> Result<Prefix, Malformed> {
    text.parse().map_err(|_| malformed("the prefix of a region"))
}

fn count_bytes(count: Count) -> Bytes {
    match count {
        Count::Below(count) => {
            let zeros = count.leading_zeros() as usize / 8; // OK because there are at most 128
            Bytes::copy_from_slice(&count.to_be_bytes()[zeros..])
        }
        Count::Max => Bytes::from_static(&MAX),
    }
}

fn count_from(bytes: &[u8]) -> Result<Count, Malformed> {
    match bytes.len() {
        0..=16 => Ok(Count::Below(bytes.iter().fold(0, |count, byte| count << 8 | u128::from(*byte)))),
        17 if bytes == MAX => Ok(Count::Max),
        _ => Err(malformed("a counter")),
    }
}

/// 2^128, big-endian.
const MAX: [u8; 17] = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

#[cfg(test)]
mod tests {
    use kent_ids::UnixNanos;
    use kent_issue::{Forgotten, Lapse};

    use super::*;

    fn slot() -> SlotRecord {
        SlotRecord {
            node: Node::new(0xa1b2_c3d4_e5c5).expect("48 bits"),
            clock_seq: ClockSeq::new(0x3fff).expect("14 bits"),
            epoch: SlotEpoch::new(7),
            holder: HolderId::new([9; 16]),
            reserved_until: UnixSeconds::new(1_763_667_060),
            seen: UnixSeconds::new(1_763_667_000),
        }
    }

    fn region() -> Region {
        let former = FormerPrefix {
            prefix: "101101".parse().expect("a prefix"),
            from: Revision(1),
            to: Revision(8),
            issued: Count::Below(2),
        };
        let past = Past { first_name: None, key_number: Some(RegionNumber(3)), prefixes: vec![former] };
        Region {
            number: RegionNumber(4),
            name: "r1".into(),
            prefix: "10110100".parse().expect("a prefix"),
            zone: 6,
            suffix: 50,
            kind: Kind::Open,
            sub_bits: 0,
            parent: Some(RegionNumber(2)).into(),
            issued: Count::Below(3).into(),
            since: Revision(9),
            order: Order::Sequential,
            pace: Pace::for_bits(50),
            sealed: false,
            delegated: false,
            extras: Extras { past: past.into(), ..Extras::default() }.into(),
        }
    }

    #[test]
    fn ok_records_survive_encoding_and_decoding() {
        assert_eq!(decode_slot(&encode_slot(&slot())), Ok(slot()));
        assert_eq!(decode_region(&encode_region(&region()), RegionNumber(4), Count::Below(3)), Ok(region()));
        for count in [Count::ZERO, Count::Below(1), Count::Below(256), Count::Below(u128::MAX), Count::Max] {
            for unsure in [false, true] {
                let counter = Counter { reserved: count, paid: UnixNanos::new(1_763_667_000_123_456_789), unsure };
                assert_eq!(decode_counter(&encode_counter(&counter)), Ok(counter));
            }
        }
        let facts = SpaceFacts {
            bits: 64,
            revision: Revision(3),
            next_number: RegionNumber(5),
            last_edit: EditId([1; 16]),
            scramble_key: ClusterKey::new([2; 16]),
            text_form: TextForm::Hex,
            deleted: false,
        };
        assert_eq!(decode_space(&encode_space(&facts)), Ok(facts));
        let deleted = SpaceFacts { deleted: true, ..facts };
        assert_eq!(decode_space(&encode_space(&deleted)), Ok(deleted));
        assert_eq!(decode_cluster(&encode_cluster(&ClusterKey::new([3; 16]))), Ok(ClusterKey::new([3; 16])));
    }

    /// The encoding of records must never change, or existing stores could not be read.
    #[test]
    fn ok_the_stored_form_is_frozen() {
        let hex = |bytes: Vec<u8>| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(
            hex(encode_slot(&slot())),
            "09c5e5d4c3b2a1000010ff7f18072210090909090909090909090909090909092974\
             6c1f690000000031386c1f6900000000"
        );
        assert_eq!(
            hex(encode_region(&region())),
            "0a02723112083130313130313030180620322801380242\
             0f0a06313031313031100118082201025009b0018080808004b80103"
        );
        let counter = Counter { reserved: Count::Below(1000), paid: UnixNanos::new(1), unsure: true };
        assert_eq!(hex(encode_counter(&counter)), "0a0203e81101000000000000001801");
    }

    #[test]
    fn err_malformed_records_are_named() {
        assert_eq!(decode_slot(b"\xff"), Err(malformed("a slot record")));
        assert_eq!(decode_slot(b""), Err(malformed("the holder of a slot")));
        assert_eq!(decode_region(b"", RegionNumber(1), Count::ZERO), Err(malformed("the kind of a region")));
        assert_eq!(
            decode_counter(&[0x0a, 17, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            Err(malformed("a counter"))
        );
        assert_eq!(decode_cluster(b""), Err(malformed("the cluster key")));
    }

    fn full_region() -> Region {
        let auto_expand = Some(AutoExpand { at_percent: 80, by_bits: 2, max_suffix: 60 });
        let cap = Some(Count::Below(1 << 100));
        let stride = Stride::new(u16::MAX, 7).expect("a stride");
        let texts = Texts {
            owner: "ops".to_owned(),
            description: "x".repeat(4000),
            labels: [("team".to_owned(), "a".to_owned())].into(),
        };
        let extras = Extras {
            past: Past { first_name: Some("before".into()), ..region().past().clone() }.into(),
            policy: Policy { auto_expand, cap, chunk: ChunkPolicy::Within { min: 3, max: 70 }, stride }.into(),
            texts: texts.into(),
        };
        Region { order: Order::Scrambled, sealed: true, delegated: true, extras: extras.into(), ..region() }
    }

    #[test]
    fn ok_policies_and_texts_survive_encoding_and_decoding() {
        let region = full_region();
        assert_eq!(decode_region(&encode_region(&region), region.number, *region.issued), Ok(region));
    }

    #[test]
    fn ok_an_edit_of_many_regions_survives_in_parts() {
        let plain = Region { issued: Count::ZERO.into(), ..full_region() };
        let changes: Vec<Change> = (0..20)
            .map(|at| Change {
                number: plain.number,
                before: (at % 3 != 0).then(|| plain.clone()),
                after: (at % 5 != 1).then(|| Region { name: format!("r{at}").into(), ..plain.clone() }),
            })
            .filter(|change| change.region().is_some())
            .collect();
        let entry = HistoryEntry {
            edit: EditId([3; 16]),
            unix_nanos: -5,
            principal: "p".to_owned(),
            operation: "split".to_owned(),
            reason: "why".to_owned(),
            request_id: "7".to_owned(),
            changes,
            declared: Some(Declared { before: Count::ZERO, after: Count::Max }),
            follows: Some(Revision(7)),
            undoes: Some(Revision(6)),
        };
        let parts = encode_history(&entry);
        assert!(parts.len() > 5 && parts.iter().all(|part| part.len() < 16 * 1024));
        assert_eq!(decode_history(parts.iter().map(Vec::as_slice)), Ok(entry));
        assert!(decode_history(parts[1..].iter().map(Vec::as_slice)).is_err(), "a part is missing");
        assert!(decode_history([]).is_err());
    }

    #[test]
    fn ok_requests_and_grants_survive_encoding_and_decoding() {
        let unchanged = Unchanged { operation: "seal".to_owned(), region: "r".to_owned(), number: RegionNumber(3) };
        for unchanged in [None, Some(unchanged)] {
            let made = EditMade { revision: Revision(9), unchanged, caller: "token:a".to_owned() };
            assert_eq!(decode_request(&encode_request(&made)), Ok(made));
        }
        let stride = Stride::new(3, 2).expect("a stride");
        let grant = StrictGrant { first: 1 << 90, count: 7, stride, unix_nanos: 3, caller: "local".to_owned() };
        assert_eq!(decode_grant(&encode_grant(&grant)), Ok(grant));
        let before = UnixNanos::new(1_763_667_000_123_456_789);
        assert_eq!(decode_forgotten_requests(&encode_forgotten_requests(before)), Ok(before));
        assert_eq!(decode_undated(&encode_undated(9)), Ok(9));
        let forgotten = Forgotten { through: 7, passed_over: 999_999 };
        assert_eq!(decode_forgotten(&encode_forgotten(forgotten)), Ok(forgotten));
        let (listed, count) = (Listed { on_demand: true }, SeriesCount { on_demand: 7, made: 8 });
        assert_eq!(decode_listed(&encode_listed(listed)), Ok(listed));
        assert_eq!(decode_series_count(&encode_series_count(count)), Ok(count));
    }

    fn restored(tables_edited: bool) -> Restored {
        let at = |seconds: i128| UnixNanos::new((1_800_000_000 + seconds) * 1_000_000_000);
        Restored { lapse: Lapse { since: at(0), until: at(1000) }, tables_edited }
    }

    #[test]
    fn ok_a_restore_skips_what_the_pace_allows_or_waits_for_a_floor() {
        let (pace, capacity) = (Pace::for_bits(0), Count::Below(1 << 40));
        let lapse = restored(false).lapse;
        let skipped = (1000 + kent_issue::BURST.as_secs()) << 20;
        let moved = |counter: Counter| counter.after(&lapse, pace, capacity);
        let at = |reserved: u128| Counter { reserved: Count::Below(reserved), ..Counter::NEW };
        let paid = lapse.until.offset(1024 * 1_000_000_000);
        assert_eq!(moved(at(7)), Counter { paid, ..at(7 + u128::from(skipped)) });
        // Three counters do not move and need a floor: one with nothing left after the skip, a full one, and one that
        // needed a floor before.
        for known in [at((1 << 40) - u128::from(skipped)), at(1 << 40), Counter { unsure: true, ..at(7) }] {
            assert_eq!(moved(known), Counter { paid, unsure: true, ..known });
        }
        assert!(!moved(at((1 << 40) - u128::from(skipped) - 1)).unsure, "one number is left");
    }

    #[test]
    fn ok_a_new_counter_takes_lost_ones_into_account() {
        let (kept, edited) = (restored(false), restored(true));
        let next = Count::Below(5);
        let new = Counter { reserved: next, ..Counter::NEW };
        for restores in [&[][..], &[kept]] {
            assert_eq!(Counter::of_region(next, restores), new);
        }
        for restores in [&[edited][..], &[kept, edited], &[edited, kept]] {
            assert_eq!(Counter::of_region(next, restores), Counter { unsure: true, ..new });
        }
        let series = |restores: &[Restored]| Counter::of_series(next, restores, Pace::for_bits(0), Count::Max);
        assert_eq!(series(&[]), new);
        let once = new.after(&kept.lapse, Pace::for_bits(0), Count::Max);
        assert_eq!(series(&[kept]), once);
        assert_eq!(series(&[kept, edited]), once.after(&edited.lapse, Pace::for_bits(0), Count::Max));
        assert!(series(&[kept]).reserved > next);
    }
}
