//! Imports of regions from another table.

use kent_regions::{Edit, Imported, Region};
use prost::Message;

use super::{
    EditInput, EditOptions, Invalid, copy,
    names::{RegionName, SpaceName},
    range::width,
};
use crate::v1;

/// The maximum number of regions in one import. An import then fits the 128 operations of one commit: one record and
/// one counter per region, the space, the request ID and up to 24 parts of the history.
pub const IMPORT_REGIONS_MAX: usize = 48;

/// The maximum size of the regions in one import, in bytes. Each region is stored twice: as a record, and in the
/// history, whose parts have about 12 KiB.
pub const IMPORT_BYTES_MAX: usize = 128 * 1024;

/// An edit that imports regions, and the width that the table must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportInput {
    /// The edit.
    pub edit: EditInput,
    /// The width of the identifiers in bits.
    pub bits: u8,
}

impl TryFrom<v1::ImportTableRequest> for ImportInput {
    type Error = Invalid;

    fn try_from(request: v1::ImportTableRequest) -> Result<Self, Invalid> {
        let space = SpaceName::parse("parent", &request.parent)?.into_inner();
        let (count, bytes) = (request.regions.len(), request.regions.iter().map(Message::encoded_len).sum::<usize>());
        let problem = match (count, bytes) {
            (0, _) => Some("must have at least one region".to_owned()),
            (count, _) if count > IMPORT_REGIONS_MAX => {
                Some(format!("has {count} regions, but one import creates at most {IMPORT_REGIONS_MAX}"))
            }
            (_, bytes) if bytes > IMPORT_BYTES_MAX => {
                Some(format!("has {bytes} bytes, but one import has at most {IMPORT_BYTES_MAX}"))
            }
            _ => None,
        };
        if let Some(problem) = problem {
            return Err(Invalid::new(FIELD, problem));
        }
        let regions = request.regions.into_iter().map(|region| imported(&space, region));
        let edit = Edit::Import { regions: regions.collect::<Result<_, _>>()? };
        let v1::ImportTableRequest { validate_only, expected_revision, request_id, reason, .. } = request;
        let options = EditOptions::checked(validate_only, expected_revision, request_id, reason)?;
        Ok(Self { edit: EditInput { space, edit, options }, bits: width("bits", request.bits)? })
    }
}

const FIELD: &str = "regions";

fn imported(space: &str, message: v1::Region) -> Result<Imported, Invalid> {
    let named = message.name.clone();
    let of_region = |problem: &dyn std::fmt::Display| Invalid::new(FIELD, format!("region {named:?}: {problem}"));
    if message.reserved.is_empty() {
        return Err(of_region(&"reserved is missing: all suffixes below it count as issued"));
    }
    let parent = match message.parent.as_str() {
        "" => None,
        parent => Some(in_space(space, parent)?),
    };
    in_space(space, &message.name)?;
    let needs_floor = message.needs_floor;
    let region: Region = copy::region(message).map_err(|invalid| of_region(&invalid))?;
    Ok(Imported { region, parent, needs_floor })
}

/// Returns the name of a region, which must be in the space of the import.
fn in_space(space: &str, name: &str) -> Result<String, Invalid> {
    let found = RegionName::parse(FIELD, name)?;
    match found.space == space {
        true => Ok(found.region),
        false => Err(Invalid::new(FIELD, format!("{name:?} is not in space {space:?}, the space of the import"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(name: &str) -> v1::Region {
        v1::Region {
            name: format!("spaces/default/regions/{name}"),
            prefix: "01".to_owned(),
            suffix_bits: 62,
            kind: v1::region::Kind::Open.into(),
            pace: 5,
            reserved: "7".to_owned(),
            ..v1::Region::default()
        }
    }

    fn request(regions: Vec<v1::Region>) -> v1::ImportTableRequest {
        let parent = "spaces/default".to_owned();
        v1::ImportTableRequest { parent, bits: 64, regions, ..v1::ImportTableRequest::default() }
    }

    #[test]
    fn ok_a_region_is_imported_with_the_name_of_its_parent() {
        let inner = v1::Region { parent: "spaces/default/regions/outer".to_owned(), ..region("inner") };
        let input = ImportInput::try_from(request(vec![inner])).expect("valid");
        let Edit::Import { regions } = input.edit.edit else { panic!("an import") };
        assert_eq!((regions[0].parent.as_deref(), regions[0].region.name.as_str()), (Some("outer"), "inner"));
        assert_eq!((regions[0].region.issued.to_string(), input.bits), ("7".to_owned(), 64));
    }

    #[test]
    fn err_regions_that_cannot_be_imported() {
        let large = v1::Region { description: "x".repeat(70_000), ..region("r") };
        for (regions, problem) in [
            (vec![], "at least one region"),
            (vec![region("r"); 49], "has 49 regions, but one import creates at most 48"),
            (vec![large.clone(), large], "has at most 131072"),
            (vec![v1::Region { reserved: String::new(), ..region("r") }], "reserved is missing"),
            (vec![v1::Region { reserved: "many".to_owned(), ..region("r") }], "reserved"),
            (vec![v1::Region { pace: 0, ..region("r") }], "pace: is missing"),
            (vec![v1::Region { kind: 0, ..region("r") }], "kind: must be"),
            (
                vec![v1::Region { name: "spaces/other/regions/r".to_owned(), ..region("r") }],
                "is not in space \"default\"",
            ),
            (vec![v1::Region { parent: "outer".to_owned(), ..region("r") }], "regions"),
        ] {
            let invalid = ImportInput::try_from(request(regions)).expect_err(problem).to_string();
            assert!(invalid.contains(problem), "{invalid}");
        }
    }
}
