//! The free blocks of a space, and the place that a new region would get.

use kent_regions::{BadPrefix, Choice, Prefix, Table, Zone};

use super::{
    Invalid,
    names::SpaceName,
    range::width,
    regions::{Page, parse_page, zone},
};
use crate::v1;

/// A validated request for the free blocks of a space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreeInput {
    /// The name of the space.
    pub space: String,
    /// The requested page of the list.
    pub page: Page,
    /// The last block of the previous page.
    pub after: Option<Prefix>,
    /// The smallest block to list, in bits.
    pub at_least: u8,
    /// The suffix and the zone of a new region, if the request asks where to place it.
    pub region: Option<(u8, Zone)>,
}

impl TryFrom<v1::ListFreeBlocksRequest> for FreeInput {
    type Error = Invalid;

    fn try_from(request: v1::ListFreeBlocksRequest) -> Result<Self, Invalid> {
        let space = SpaceName::parse("parent", &request.parent)?.into_inner();
        let page = parse_page(request.page_size, &request.page_token)?;
        let after = page.after.as_deref().map(str::parse).transpose();
        let after = after.map_err(|_: BadPrefix| Invalid::new("page_token", "is not a page token of this method"))?;
        if request.zone_bits.is_some() && request.suffix_bits.is_none() {
            return Err(Invalid::new("zone_bits", "needs suffix_bits: together they define the region to place"));
        }
        let suffix = request.suffix_bits.map(|suffix| width("suffix_bits", suffix)).transpose()?;
        let zone = zone(request.zone_bits)?;
        let at_least = width("at_least_bits", request.at_least_bits)?;
        Ok(Self { space, page, after, at_least, region: suffix.map(|suffix| (suffix, zone)) })
    }
}

/// Converts free blocks of a table, and the place for a new region.
pub fn free_blocks(
    table: &Table,
    blocks: &[Prefix],
    choice: Option<Choice>,
    next_page_token: String,
) -> v1::ListFreeBlocksResponse {
    // OK because a block's prefix is not longer than the table's identifiers.
    let block = |block: &Prefix| v1::FreeBlock { prefix: block.to_string(), bits: (table.bits() - block.len()).into() };
    v1::ListFreeBlocksResponse {
        blocks: blocks.iter().map(block).collect(),
        next_page_token,
        revision: table.revision().0,
        choice: choice.map(|choice| v1::PlaceOfRegion {
            prefix: choice.prefix.to_string(),
            zone_bits: choice.zone.into(),
            block: choice.block.to_string(),
        }),
    }
}
