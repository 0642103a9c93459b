//! The parts of an import, each of which is one commit, and their rehearsal on a copy of the table.

use kent_proto::model::{IMPORT_BYTES_MAX, IMPORT_REGIONS_MAX, ImportInput, table_of};
use kent_proto::v1::watch_table_response::Snapshot;
use kent_proto::v1::{ImportTableRequest, Region, region};
use prost::Message;

/// Divides a list of regions into parts, so that the table is valid after each part. In the list, outer regions must
/// come before inner ones.
///
/// # Errors
///
/// Returns a message if more nested regions depend on each other than one commit can create.
pub(crate) fn parts(regions: Vec<Region>) -> Result<Vec<Vec<Region>>, String> {
    let (mut parts, mut part, mut bytes) = (Vec::new(), Vec::<Region>::new(), 0);
    for region in regions {
        bytes += region.encoded_len();
        part.push(region);
        if part.len() <= IMPORT_REGIONS_MAX && bytes <= IMPORT_BYTES_MAX {
            continue;
        }
        // A region with subregions needs its first subregion in the same commit, so a part ends with a region without
        // subregions.
        let before = part.len() - 1;
        let end = part[..before].iter().rposition(|region| region.kind() == region::Kind::Open).map(|last| last + 1);
        let Some(end) = end else {
            return Err(format!(
                "region {:?} is inside too many others: one commit creates at most {IMPORT_REGIONS_MAX} regions, of {IMPORT_BYTES_MAX} \
                 bytes in total; create the outer ones by hand first",
                crate::names::short(&part[before].name)
            ));
        };
        let rest = part.split_off(end);
        bytes = rest.iter().map(Message::encoded_len).sum();
        parts.push(std::mem::replace(&mut part, rest));
    }
    parts.extend((!part.is_empty()).then_some(part));
    Ok(parts)
}

/// Applies all parts of an import to a copy of the table, with the daemon's own rules, so that an import that would be
/// refused fails before it changes anything.
///
/// # Errors
///
/// Returns the refusal.
pub(crate) fn rehearse(
    present: Vec<Region>,
    bits: u32,
    revision: u64,
    parts: &[ImportTableRequest],
) -> Result<(), String> {
    // A plan does not depend on the key of the scrambled order.
    let scramble_key = vec![0; 16].into();
    let mut table = table_of(vec![Snapshot {
        regions: present,
        bits,
        revision,
        last: true,
        scramble_key,
        sealed_by: String::new(),
    }])
    .map_err(|bad| bad.to_string())?;
    for part in parts {
        let input = ImportInput::try_from(part.clone()).map_err(|invalid| invalid.to_string())?;
        let plan = table.plan(&input.edit.edit).map_err(|refusal| refusal.to_string())?;
        table.apply(&plan).map_err(|refusal| refusal.to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::describe::samples::region as sample;

    fn kinds(of: &str) -> Vec<Region> {
        let kind = |kind| match kind {
            'o' => region::Kind::Open,
            _ => region::Kind::Partial,
        };
        of.chars().map(|letter| sample("r", "", "0", 4, kind(letter))).collect()
    }

    #[track_caller]
    fn check(regions: Vec<Region>, expected: &[usize]) {
        let lengths: Vec<usize> = parts(regions).expect("parts").iter().map(Vec::len).collect();
        assert_eq!(lengths, expected);
    }

    #[test]
    fn ok_a_part_ends_with_a_region_without_subregions() {
        check(vec![], &[]);
        check(kinds(&"o".repeat(48)), &[48]);
        check(kinds(&"o".repeat(100)), &[48, 48, 4]);
        check(kinds(&format!("{}pppo", "o".repeat(46))), &[46, 4]);
        check(kinds(&format!("o{}o", "p".repeat(47))), &[1, 48]);
        let large = |region| Region { description: "x".repeat(4000), ..region };
        let lengths = parts(kinds(&"o".repeat(40)).into_iter().map(large).collect()).expect("parts");
        assert_eq!(lengths.iter().map(Vec::len).collect::<Vec<_>>(), [32, 8]);
    }

    #[test]
    fn err_a_chain_of_regions_that_one_commit_cannot_create() {
        let error = parts(kinds(&format!("{}o", "p".repeat(48)))).expect_err("too many");
        assert!(error.contains("inside too many others"), "{error}");
    }
}
