//! Images of tables: all regions with the versions of their records, but without counters, in a form that is read faster
//! than the records.

use std::{iter, sync::Arc};

use bytes::Bytes;
use kent_regions::{BITS_MAX, Count, Extras, Past, Prefix, Rare, Region, RegionNumber, Revision};
use prost::Message;

use super::{
    EditId, Malformed, decode, decode_region, encode_region, kind_field, kind_from, malformed, order_field, order_from,
    other_than, pace_from,
};
use crate::records;

/// The data of a table's image, without the regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageFacts {
    /// The revision of the table.
    pub revision: Revision,
    /// The edit that made this revision.
    pub edit: EditId,
    /// The version of the space's record at this revision.
    pub version: u64,
    /// The width of the identifiers in bits.
    pub bits: u8,
    /// The number of the next region.
    pub next_number: RegionNumber,
    /// The number of regions.
    pub regions: u64,
    /// The identity of the store.
    pub store: [u8; 16],
}

/// A region in an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageRegion {
    /// The region. A decoded one has issued nothing.
    pub region: Arc<Region>,
    /// The version of the region's record.
    pub version: u64,
}

/// The number of regions in a part. A region's record has at most 16 KiB, so a part has about half a megabyte at most.
const PART_REGIONS: usize = 32;

/// Encodes an image in parts: first the facts, then the regions in this order.
pub fn encode_image(facts: ImageFacts, regions: &[ImageRegion]) -> impl Iterator<Item = Vec<u8>> {
    let head = records::ImageHead {
        revision: facts.revision.0,
        edit: Bytes::copy_from_slice(&facts.edit.0),
        version: facts.version,
        bits: facts.bits.into(),
        next_region: facts.next_number.0,
        regions: facts.regions,
        store: Bytes::copy_from_slice(&facts.store),
    };
    let parts = regions
        .chunks(PART_REGIONS)
        .map(move |part| records::ImagePart { regions: part.iter().map(encoded).collect() });
    iter::once(head.encode_to_vec()).chain(parts.map(|part| part.encode_to_vec()))
}

/// Decodes the first part of an image.
///
/// # Errors
///
/// [`Malformed`] names the value that is wrong.
pub fn decode_image_head(part: &[u8]) -> Result<ImageFacts, Malformed> {
    let head: records::ImageHead = decode(part, "the head of an image")?;
    Ok(ImageFacts {
        revision: Revision(head.revision),
        edit: EditId(head.edit.as_ref().try_into().map_err(|_| malformed("the edit of an image"))?),
        version: head.version,
        bits: u8::try_from(head.bits).map_err(|_| malformed("the width of an image"))?,
        next_number: RegionNumber(head.next_region),
        regions: head.regions,
        store: head.store.as_ref().try_into().map_err(|_| malformed("the store of an image"))?,
    })
}

/// Decodes another part of an image.
///
/// # Errors
///
/// [`Malformed`] names the value that is wrong.
pub fn decode_image_part(part: &[u8]) -> Result<impl Iterator<Item = Result<ImageRegion, Malformed>>, Malformed> {
    let part: records::ImagePart = decode(part, "a part of an image")?;
    Ok(part.regions.into_iter().map(|region| {
        let (version, number) = (region.version, RegionNumber(region.number));
        let region = match region.record.is_empty() {
            true => plain(region, number)?,
            false => decode_region(&region.record, number, Count::ZERO)?,
        };
        Ok(ImageRegion { region: Arc::new(region), version })
    }))
}

fn encoded(ImageRegion { region, version }: &ImageRegion) -> records::ImageRegion {
    // All fields are listed, so that the compiler reports a new one.
    #[rustfmt::skip]
    let Region {
        number, name, prefix, zone, suffix, kind, sub_bits, parent: _, issued: _, since, order, pace, sealed, delegated, extras,
    } = &**region;
    let (number, version) = (number.0, *version);
    let key_number = region.past().key_number;
    if **extras != key_only(key_number) {
        let record = encode_region(region).into();
        return records::ImageRegion { number, version, record, ..records::ImageRegion::default() };
    }
    let aligned = prefix.base(BITS_MAX);
    records::ImageRegion {
        number,
        version,
        record: Bytes::new(),
        name: name.to_string(),
        prefix: (aligned >> 64) as u64, // OK because it is the first half
        prefix_rest: aligned as u64,    // OK because it is the other half
        widths: u32::from_le_bytes([prefix.len(), *zone, *suffix, *sub_bits]),
        kind: kind_field(*kind).into(),
        order: order_field(*order).into(),
        sealed: *sealed,
        delegated: *delegated,
        parent: region.parent().map(|parent| parent.0),
        prefix_since: since.0,
        key_number: region.key_number().0,
        pace: pace.get(),
    }
}

/// Returns the extras of a region without a record.
fn key_only(key_number: Option<RegionNumber>) -> Extras {
    Extras { past: Past { key_number, ..Past::default() }.into(), ..Extras::default() }
}

/// Decodes a region without a record.
fn plain(region: records::ImageRegion, number: RegionNumber) -> Result<Region, Malformed> {
    let [len, zone, suffix, sub_bits] = region.widths.to_le_bytes();
    let aligned = u128::from(region.prefix) << 64 | u128::from(region.prefix_rest);
    let spare = BITS_MAX.checked_sub(len).ok_or(malformed("the prefix of a region"))?;
    let prefix = Prefix::new(aligned.checked_shr(spare.into()).unwrap_or_default(), len);
    if prefix.base(BITS_MAX) != aligned {
        return Err(malformed("the prefix of a region"));
    }
    Ok(Region {
        number,
        name: region.name.into(),
        prefix,
        zone,
        suffix,
        kind: kind_from(region.kind)?,
        sub_bits,
        parent: region.parent.map(RegionNumber).into(),
        issued: Rare::default(),
        since: Revision(region.prefix_since),
        order: order_from(region.order)?,
        pace: pace_from(region.pace)?,
        sealed: region.sealed,
        delegated: region.delegated,
        extras: key_only(other_than(number, region.key_number)).into(),
    })
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use kent_regions::{FormerPrefix, Kind, Order, Pace, Policy, Texts};
    use proptest::prelude::*;

    use super::*;

    fn facts(regions: u64) -> ImageFacts {
        ImageFacts {
            revision: Revision(7),
            edit: EditId([5; 16]),
            version: u64::MAX,
            bits: 64,
            next_number: RegionNumber(9),
            regions,
            store: [9; 16],
        }
    }

    fn count() -> impl Strategy<Value = Count> {
        prop_oneof![Just(Count::ZERO), any::<u128>().prop_map(Count::Below), Just(Count::Max)]
    }

    prop_compose! {
        fn region()(
            (number, parent, since, key_number, pace) in any::<(u64, Option<u64>, u64, Option<u64>, NonZeroU64)>(),
            (bits, len, zone, suffix, sub_bits) in (any::<u128>(), 0..=BITS_MAX, any::<u8>(), any::<u8>(), any::<u8>()),
            (name, first_name, owner) in ("[a-z]{0,20}", "|[a-z]{1,9}", "|[a-z]{1,9}"),
            kind in prop_oneof![Just(Kind::Open), Just(Kind::Partial), Just(Kind::Closed)],
            order in prop_oneof![Just(Order::Sequential), Just(Order::Scrambled), Just(Order::External)],
            (issued, cap, former) in (count(), proptest::option::weighted(0.2, count()), proptest::option::weighted(0.2, count())),
            (sealed, delegated) in any::<(bool, bool)>(),
        ) -> Region {
            let prefix = Prefix::new(bits, len);
            let former = former.map(|issued| FormerPrefix { prefix, from: Revision(1), to: Revision(2), issued });
            let past = Past {
                first_name: (!first_name.is_empty()).then(|| first_name.into()),
                key_number: key_number.filter(|key| ![0, number].contains(key)).map(RegionNumber),
                prefixes: former.into_iter().collect(),
            };
            let (policy, texts) = (Policy { cap, ..Policy::default() }, Texts { owner, ..Texts::default() });
            Region {
                number: RegionNumber(number),
                name: name.into(),
                prefix,
                zone,
                suffix,
                kind,
                sub_bits,
                parent: parent.map(RegionNumber).into(),
                issued: issued.into(),
                since: Revision(since),
                order,
                pace: Pace::per_second(pace),
                sealed,
                delegated,
                extras: Extras { past: past.into(), policy: policy.into(), texts: texts.into() }.into(),
            }
        }
    }

    proptest! {
        #[test]
        fn ok_regions_survive_encoding_and_decoding(regions in proptest::collection::vec((region(), any::<u64>()), 0..80)) {
            let regions: Vec<_> =
                regions.into_iter().map(|(region, version)| ImageRegion { region: Arc::new(region), version }).collect();
            let facts = facts(regions.len() as u64);
            let mut parts = encode_image(facts, &regions);
            prop_assert_eq!(decode_image_head(&parts.next().expect("the head")), Ok(facts));
            let mut decoded = Vec::new();
            for part in parts {
                decoded.extend(decode_image_part(&part).expect("a part").map(|region| region.expect("a region")));
            }
            let without_counter = |item: &ImageRegion| {
                let region = Region { issued: Rare::default(), ..(*item.region).clone() };
                ImageRegion { region: Arc::new(region), version: item.version }
            };
            prop_assert_eq!(decoded, regions.iter().map(without_counter).collect::<Vec<_>>());
        }
    }

    #[test]
    fn err_malformed_parts_are_named() {
        assert_eq!(decode_image_head(b"\xff"), Err(malformed("the head of an image")));
        assert_eq!(decode_image_head(b""), Err(malformed("the edit of an image")));
        assert_eq!(decode_image_part(b"\xff").map(Iterator::count), Err(malformed("a part of an image")));
        let decode = |change: fn(&mut records::ImageRegion)| {
            let mut region = records::ImageRegion {
                prefix: 1 << 63,
                widths: u32::from_le_bytes([1, 2, 3, 0]),
                kind: records::region_record::Kind::Open.into(),
                pace: 1,
                ..records::ImageRegion::default()
            };
            change(&mut region);
            let part = records::ImagePart { regions: vec![region] }.encode_to_vec();
            decode_image_part(&part).and_then(|mut regions| regions.next().expect("one")).map(drop)
        };
        assert_eq!(decode(|_| {}), Ok(()));
        assert_eq!(decode(|region| region.kind = 0), Err(malformed("the kind of a region")));
        assert_eq!(decode(|region| region.order = 9), Err(malformed("the order of a region")));
        assert_eq!(decode(|region| region.pace = 0), Err(malformed("the pace of a region")));
        assert_eq!(decode(|region| region.widths = 129), Err(malformed("the prefix of a region")));
        assert_eq!(decode(|region| region.prefix_rest = 1), Err(malformed("the prefix of a region")));
        assert_eq!(decode(|region| region.record = Bytes::from_static(b"\xff")), Err(malformed("a region record")));
    }
}
