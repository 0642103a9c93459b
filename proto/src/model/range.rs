//! The ranges of numeric fields in requests.

use core::ops::RangeInclusive;

use kent_access::LIMIT_MAX;
use kent_regions::BITS_MAX;

use super::Invalid;

/// Returns the range of an unsigned field of a request. The range of `bits` excludes 0, although `CreateSpaceRequest`
/// reads 0 as a default.
pub fn range(field: &str) -> RangeInclusive<u64> {
    match field {
        "at_percent" => 1..=100,
        "bits" | "by_bits" => 1..=BITS_MAX.into(),
        field if field.ends_with("_bits") => 0..=BITS_MAX.into(),
        "ids_per_second" | "calls_per_second" | "streams" | "connections" => 0..=LIMIT_MAX,
        _ => 0..=u64::MAX,
    }
}

/// Reads a field with a number of bits.
pub(super) fn width(field: &'static str, bits: u32) -> Result<u8, Invalid> {
    within(field, bits).map_err(|problem| Invalid::new(field, format!("is {problem}")))
}

/// Like [`width`], for a field of a nested message.
pub(super) fn inner(outer: &'static str, field: &str, bits: u32) -> Result<u8, Invalid> {
    within(field, bits).map_err(|problem| Invalid::new(outer, format!("{field} is {problem}")))
}

/// Reads a field whose maximum fits into 8 bits. The caller checks the minimum.
fn within(field: &str, value: u32) -> Result<u8, String> {
    let range = range(field);
    let fits = u8::try_from(value).ok().filter(|_| u64::from(value) <= *range.end());
    fits.ok_or_else(|| format!("{value}, but must be {} to {}", range.start(), range.end()))
}

#[cfg(test)]
mod tests {
    use crate::{
        model::{EditInput, FreeInput, Invalid, SpaceInput},
        v1::{self, AutoExpand, CreateRegionRequest, ExpandRegionRequest, ListFreeBlocksRequest, NewRegion, Policy},
    };

    fn create() -> CreateRegionRequest {
        let (parent, region_id) = ("spaces/default".to_owned(), "r".to_owned());
        CreateRegionRequest { parent, region_id, suffix_bits: Some(8), ..CreateRegionRequest::default() }
    }

    fn policy(auto_expand: AutoExpand) -> CreateRegionRequest {
        let policy = Some(Policy { auto_expand: Some(auto_expand), ..Policy::default() });
        CreateRegionRequest { policy, ..create() }
    }

    #[test]
    fn err_a_number_out_of_range_is_repeated_with_the_range_of_its_field() {
        let name = || "spaces/default/regions/r".to_owned();
        let edit = |request: CreateRegionRequest| EditInput::try_from(request).map(drop);
        let new_regions = vec![NewRegion { region_id: "a".to_owned(), suffix_bits: Some(300), ..NewRegion::default() }];
        let split =
            v1::SplitRegionRequest { name: name(), by_bits: 1, new_regions, ..v1::SplitRegionRequest::default() };
        let free = ListFreeBlocksRequest { parent: "spaces/default".to_owned(), ..ListFreeBlocksRequest::default() };
        let space = v1::CreateSpaceRequest { space_id: "s".to_owned(), bits: 300, ..v1::CreateSpaceRequest::default() };
        let expand = ExpandRegionRequest { name: name(), by_bits: 256, ..ExpandRegionRequest::default() };
        let percent = AutoExpand { at_percent: 101, by_bits: 1, max_suffix_bits: 0 };
        let checks: [(Result<(), Invalid>, &str); 9] = [
            (
                edit(CreateRegionRequest { suffix_bits: Some(400), ..create() }),
                "suffix_bits: is 400, but must be 0 to 128",
            ),
            (edit(CreateRegionRequest { zone_bits: Some(129), ..create() }), "zone_bits: is 129, but must be 0 to 128"),
            (EditInput::try_from(expand).map(drop), "by_bits: is 256, but must be 1 to 128"),
            (EditInput::try_from(split).map(drop), "new_regions: suffix_bits is 300, but must be 0 to 128"),
            (edit(policy(percent)), "policy: at_percent is 101, but must be 1 to 100"),
            (
                edit(policy(AutoExpand { at_percent: 90, by_bits: 129, ..percent })),
                "policy: by_bits is 129, but must be 1 to 128",
            ),
            (
                edit(policy(AutoExpand { at_percent: 90, max_suffix_bits: 500, ..percent })),
                "policy: max_suffix_bits is 500, but must be 0 to 128",
            ),
            (
                FreeInput::try_from(ListFreeBlocksRequest { at_least_bits: 999, ..free }).map(drop),
                "at_least_bits: is 999, but must be 0 to 128",
            ),
            (SpaceInput::try_from(space).map(drop), "bits: is 300, but must be 1 to 128"),
        ];
        for (checked, expected) in checks {
            assert_eq!(checked.map_err(|invalid| invalid.to_string()), Err(expected.to_owned()));
        }
    }
}
